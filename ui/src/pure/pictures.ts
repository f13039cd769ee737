/** Pictures in a recorded request, in the shapes of the providers. Only kinds that a browser decodes without running anything. */

import { record } from "./session";

export interface Found {
  type: string;
  base64: string;
}

const TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Deeper a request does not go. */
const DEPTH_MAX = 12;
const DATA = /^data:([a-z]+\/[a-z]+);base64,([A-Za-z0-9+/=]+)$/;

export function pictures(request: string): Found[] {
  const found: Found[] = [];
  const add = (type: unknown, base64: unknown) => {
    if (typeof type === "string" && typeof base64 === "string" && TYPES.has(type) && /^[A-Za-z0-9+/=]+$/.test(base64)) found.push({ type, base64 });
  };
  const walk = (value: unknown, depth: number) => {
    if (depth > DEPTH_MAX) return;
    if (Array.isArray(value)) return value.forEach((one) => walk(one, depth + 1));
    const here = record(value);
    add(here.media_type ?? here.mime_type ?? here.mimeType, here.data);
    const url = typeof here.url === "string" ? here.url : here.image_url;
    const data = typeof url === "string" ? DATA.exec(url) : null;
    if (data) add(data[1], data[2]);
    for (const inner of Object.values(here)) if (typeof inner === "object" && inner !== null) walk(inner, depth + 1);
  };
  try {
    walk(JSON.parse(request), 0);
  } catch {
    return [];
  }
  return found;
}
