// From what Prometheus answers to the frames that Grafana's data source makes of it.
import { type DataFrame, FieldType, type Labels, createDataFrame } from '@grafana/data';

export interface Answer {
  resultType: string;
  result: Array<{ metric: Labels; value?: [number, string]; values?: Array<[number, string]> }>;
}

export interface Target {
  refId: string;
  legendFormat: string;
  format?: string;
}

// grid is the times at which a range was asked for, in milliseconds.
export interface Grid {
  From: number;
  To: number;
  Step: number;
}

export function framesOf(target: Target, answer: Answer, grid: Grid): DataFrame[] {
  if (target.format === 'table') {
    return [tableOf(target, answer)];
  }
  return answer.result.map(({ metric, value, values }) => {
    const [times, numbers] = value ? [[value[0] * 1000], [Number(value[1])]] : spread(values ?? [], grid);
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: times, config: { interval: grid.Step } },
        { name: 'Value', type: FieldType.number, values: numbers, labels: metric, config: { displayNameFromDS: legend(target.legendFormat, metric) } },
      ],
    });
  });
}

// spread puts null where there was no number, so that lines have gaps there.
function spread(values: Array<[number, string]>, { From, To, Step }: Grid): [number[], Array<number | null>] {
  const had = new Map(values.map(([at, text]) => [Math.round((at * 1000 - From) / Step), Number(text)]));
  const steps = Array.from({ length: Math.floor((To - From) / Step) + 1 }, (_, i) => i);
  return [steps.map((i) => From + i * Step), steps.map((i) => had.get(i) ?? null)];
}

// tableOf has a column for each label, as strings, and one for the numbers.
function tableOf(target: Target, { result }: Answer): DataFrame {
  const labels = [...new Set(result.flatMap((series) => Object.keys(series.metric)))].sort();
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map((series) => series.value![0] * 1000) },
      ...labels.map((name) => ({ name, type: FieldType.string, values: result.map((series) => series.metric[name] ?? '') })),
      { name: 'Value', type: FieldType.number, values: result.map((series) => Number(series.value![1])) },
    ],
  });
}

function legend(format: string, labels: Labels): string {
  return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');
}
