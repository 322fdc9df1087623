// A dashboard's panels where its grid has them, drawn with Grafana's components.
import { type DataFrame, ThemeContext, createTheme } from '@grafana/data';
import { GlobalStyles, PortalContainer } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { type Picture, Panel, prepared } from './panels';

declare global {
  interface Window {
    drawn: Promise<string>; // what went wrong, "" if nothing did
  }
}

// As in Grafana's dashboards; draw.go makes the window as high.
const columns = 24;
const cell = 30;
const gap = 8;
const head = 48;

const theme = createTheme({ colors: { mode: 'dark' } });
const problems: string[] = [];
addEventListener('error', (event) => problems.push(event.message));
addEventListener('unhandledrejection', (event) => problems.push(String(event.reason)));

function Board({ picture, frames, width }: { picture: Picture; frames: DataFrame[][]; width: number }) {
  const column = (width - gap) / columns;
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <h3 style={{ position: 'absolute', left: gap, top: gap }}>{picture.board.title}</h3>
      <small style={{ position: 'absolute', right: gap, top: gap, color: theme.colors.text.secondary }}>drawn with Grafana&apos;s components</small>
      {picture.board.panels.map((panel, i) => {
        const { x, y, w, h } = panel.gridPos;
        const size = { width: w * column - gap, height: h * (cell + gap) - gap };
        return (
          <div key={panel.id} style={{ position: 'absolute', left: gap + x * column, top: head + y * (cell + gap), ...size }}>
            {panel.type === 'row' ? <h5 style={{ lineHeight: `${cell}px` }}>{panel.title}</h5> : <Panel panel={panel} frames={frames[i]} grid={picture.answered} theme={theme} {...size} />}
          </div>
        );
      })}
      <PortalContainer />
    </ThemeContext.Provider>
  );
}

async function draw(): Promise<string> {
  const picture: Picture = await (await fetch(`${location.search.slice(1)}.json`)).json();
  const frames = await Promise.all(picture.board.panels.map(async (panel) => (panel.type === 'row' ? [] : prepared(panel, picture, theme))));
  const root = document.body.appendChild(document.createElement('div'));
  createRoot(root, { onUncaughtError: (error) => problems.push(String(error)) }).render(<Board picture={picture} frames={frames} width={innerWidth} />);
  await document.fonts.ready;
  await new Promise((settled) => setTimeout(settled, 3000)); // charts draw after they are laid out
  return problems.join('\n');
}

window.drawn = draw().catch((error) => `${error}\n${error.stack}`);
