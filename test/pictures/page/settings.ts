// What Grafana's frontend registers at its start, as far as these dashboards use it.
import {
  type DataFrame,
  FieldConfigOptionsRegistry,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';

standardTransformersRegistry.setInit(() => [
  {
    id: 'organize',
    name: 'Organize',
    transformation: async () => standardTransformers.organizeFieldsTransformer,
    editor: () => null,
    imageDark: '',
    imageLight: '',
  },
]);

export function transformed(frames: DataFrame[], by: Array<{ id: string; options: object }>): Promise<DataFrame[]> {
  by.forEach(({ id }) => standardTransformersRegistry.get(id)); // throws where it is not there
  return new Promise((done, failed) => transformDataFrame(by, frames).subscribe({ next: done, error: failed }));
}

// What overrides and defaults may set; each is taken as it is.
const plain = ['color', 'unit', 'min', 'max', 'decimals', 'noValue', 'thresholds', 'mappings', 'displayName'];
const custom = ['drawStyle', 'lineInterpolation', 'lineWidth', 'fillOpacity', 'showPoints', 'pointSize', 'axisPlacement', 'scaleDistribution', 'spanNulls', 'stacking', 'thresholdsStyle', 'align', 'inspect', 'filterable', 'cellOptions'];

export const asRegistered = new FieldConfigOptionsRegistry(() =>
  [...plain.map((path) => item(path, false)), ...custom.map((path) => item(path, true))]
);

function item(path: string, isCustom: boolean) {
  const id = isCustom ? `custom.${path}` : path;
  return { id, path, isCustom, name: path, description: '', editor: () => null, override: () => null, process: (value: unknown) => value, shouldApply: () => true, settings: {} };
}
