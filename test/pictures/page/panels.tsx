// One panel: its answers as frames, what the JSON says of fields applied to them, and
// the component that Grafana draws that type with.
import {
  type DataFrame,
  type FieldConfigSource,
  type FieldDisplay,
  type GrafanaTheme2,
  FieldColorModeId,
  applyFieldOverrides,
  cacheFieldDisplayNames,
  dateTime,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
} from '@grafana/data';
import { BarGauge, BigValue, PanelChrome, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

import { type Answer, type Grid, type Target, framesOf } from './frames';
import { asRegistered, transformed } from './settings';

export interface PanelModel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: Target[];
  options: any; // of each type, as Grafana's JSON has them
  fieldConfig: FieldConfigSource;
  transformations?: Array<{ id: string; options: object }>;
}

// Picture is what draw.go hands over.
export interface Picture {
  board: { title: string; panels: PanelModel[] };
  answered: Grid & { Answers: Record<number, Record<string, Answer>> };
}

interface Sized {
  width: number;
  height: number;
}

interface Drawn extends Sized {
  panel: PanelModel;
  frames: DataFrame[];
  grid: Grid;
  theme: GrafanaTheme2;
}

const kinds: Record<string, (drawn: Drawn) => React.ReactNode> = { timeseries, stat, bargauge, table };

export function Panel({ panel, frames, grid, theme, width, height }: Drawn) {
  const empty = frames.every((frame) => frame.length === 0);
  return (
    <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
      {(innerWidth, innerHeight) => {
        const draw = kinds[panel.type];
        if (!draw) {
          return <p>Grafana&apos;s packages have no component for panels of the type {panel.type}.</p>;
        }
        if (empty && panel.type !== 'stat') {
          return <p style={{ textAlign: 'center', lineHeight: `${innerHeight}px`, color: theme.colors.text.secondary }}>No data</p>;
        }
        return draw({ panel, frames, theme, grid, width: innerWidth, height: innerHeight });
      }}
    </PanelChrome>
  );
}

// prepared are a panel's frames with its transformations and with units, limits,
// colours and names.
export async function prepared(panel: PanelModel, { answered }: Picture, theme: GrafanaTheme2): Promise<DataFrame[]> {
  const data = (panel.targets ?? []).flatMap((target) => framesOf(target, answered.Answers[panel.id][target.refId], answered));
  const { defaults, overrides } = panel.fieldConfig;
  const frames = applyFieldOverrides({
    data: await transformed(data, panel.transformations ?? []),
    fieldConfig: { defaults: { ...asUsual(panel.type), ...defaults, custom: { ...asUsual(panel.type).custom, ...defaults.custom } }, overrides },
    fieldConfigRegistry: asRegistered,
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
  cacheFieldDisplayNames(frames); // tables look there
  return frames;
}

// asUsual is what a type of panel has where the JSON says nothing.
function asUsual(type: string): FieldConfigSource['defaults'] {
  if (type !== 'timeseries') {
    return { color: { mode: FieldColorModeId.Thresholds } };
  }
  return {
    color: { mode: FieldColorModeId.PaletteClassic },
    custom: { drawStyle: 'line', lineInterpolation: 'linear', pointSize: 5, axisPlacement: 'auto', scaleDistribution: { type: 'linear' }, spanNulls: false },
  };
}

function timeseries({ panel, frames, grid, width, height }: Drawn) {
  const [from, to] = [dateTime(grid.From), dateTime(grid.To)];
  const finite = frames.map((frame) => ({ ...frame, fields: frame.fields.map((field) => ({ ...field, values: field.values.map((v) => (Number.isFinite(v) ? v : null)) })) }));
  return (
    <TimeSeries frames={finite} width={width} height={height} timeZone="utc" timeRange={{ from, to, raw: { from, to } }} legend={panel.options.legend} />
  );
}

function values({ panel, frames, theme }: Drawn): FieldDisplay[] {
  return getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data: frames,
    timeZone: 'utc',
  });
}

function stat(drawn: Drawn) {
  const { options } = drawn.panel;
  return repeated(drawn, (value, { width, height }, all) => (
    <BigValue
      value={value.display}
      count={all.length}
      colorMode={options.colorMode}
      graphMode={options.graphMode}
      justifyMode={options.justifyMode}
      textMode={options.textMode}
      wideLayout={options.wideLayout}
      alignmentFactors={getDisplayValueAlignmentFactors(all)}
      theme={drawn.theme}
      width={width}
      height={height}
    />
  ));
}

function bargauge(drawn: Drawn) {
  const { options } = drawn.panel;
  return repeated(drawn, (value, { width, height }, all) => (
    <BarGauge
      value={value.display}
      field={value.field}
      display={value.view?.getFieldDisplayProcessor(value.colIndex!)}
      orientation={options.orientation}
      displayMode={options.displayMode}
      valueDisplayMode={options.valueMode}
      namePlacement={options.namePlacement}
      showUnfilled={options.showUnfilled}
      alignmentFactors={getDisplayValueAlignmentFactors(all)}
      theme={drawn.theme}
      width={width}
      height={height}
    />
  ));
}

function repeated(drawn: Drawn, draw: (value: FieldDisplay, size: Sized, all: FieldDisplay[]) => React.JSX.Element) {
  const { panel, frames, width, height } = drawn;
  const all = values(drawn);
  return (
    <VizRepeater<FieldDisplay>
      source={frames}
      getValues={() => all}
      renderValue={({ value, width, height }) => draw(value, { width, height }, all)}
      renderCounter={0}
      orientation={panel.options.orientation}
      minVizWidth={panel.options.minVizWidth}
      minVizHeight={panel.options.minVizHeight}
      maxVizHeight={panel.options.maxVizHeight}
      autoGrid={panel.type === 'stat'}
      itemSpacing={panel.type === 'stat' ? 3 : undefined}
      width={width}
      height={height}
    />
  );
}

function table({ panel, frames, width, height }: Drawn) {
  return <TableNG data={frames[0]} width={width} height={height} noHeader={!panel.options.showHeader} cellHeight={panel.options.cellHeight} enableVirtualization={false} />;
}
