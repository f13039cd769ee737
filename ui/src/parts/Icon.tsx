/** Signs of what tools do, drawn rather than written: a font without emoji shows them as well. */

import type { Tool } from "../pure/tools";

const PATHS: Record<Tool["is"], string> = {
  read: "M4 1.5h5l3 3v10H4zM9 1.5v3h3",
  edit: "M2.5 13.5l.8-3.2 7.5-7.5 2.4 2.4-7.5 7.5zM9.6 4l2.4 2.4",
  write: "M4 1.5h5l3 3v10H4zM6 8h4M6 11h4",
  shell: "M1.5 3h13v10h-13zM4 6l2 2-2 2M7.5 10.5H11",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3l3.7 3.7",
  web: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM1.8 8h12.4M8 1.8c-4 4-4 8.4 0 12.4M8 1.8c4 4 4 8.4 0 12.4",
  todo: "M2 3.5l1.2 1.2L5.4 2.5M7.5 4H14M2 8.5l1.2 1.2 2.2-2.2M7.5 9H14M7.5 13H14",
  agent: "M3 5.5h10v8H3zM8 5.5v-3M6 9v1.5M10 9v1.5",
  other: "M8 5.4a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2zM8 1.5v2.2M8 12.3v2.2M1.5 8h2.2M12.3 8h2.2M3.4 3.4L5 5M11 11l1.6 1.6M12.6 3.4L11 5M5 11l-1.6 1.6",
};

export function Icon({ of }: { of: Tool["is"] }) {
  return (
    <svg className="tool-icon" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path d={PATHS[of]} />
    </svg>
  );
}
