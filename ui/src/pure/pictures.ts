/** Pictures in a recorded request, in the shapes of the providers. Only kinds that a browser decodes without running anything. */

import { record } from "./session";

export interface Found {
  type: string;
  base64: string;
  width: number;
  height: number;
}

const TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Deeper a request does not go. */
const DEPTH_MAX = 12;
/** A small file may say that it is enormous, and is as large as it says once it is decoded. */
const PIXELS_MAX = 40_000_000;
/** Within so much of it a picture says how large it is, whatever a camera wrote before. Whole groups of four characters. */
const HEAD_CHARS = 160 * 1024;
const DATA = /^data:([a-z]+\/[a-z]+);base64,([A-Za-z0-9+/=]+)$/;

export function pictures(request: string): Found[] {
  const found: Found[] = [];
  const add = (type: unknown, base64: unknown) => {
    if (typeof type !== "string" || typeof base64 !== "string" || !TYPES.has(type) || !/^[A-Za-z0-9+/=]+$/.test(base64)) return;
    const size = dimensions(headOf(base64));
    if (size && size.width * size.height <= PIXELS_MAX) found.push({ type, base64, ...size });
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

function headOf(base64: string): DataView {
  try {
    return new DataView(bytesOf(base64.slice(0, HEAD_CHARS)).buffer);
  } catch {
    return new DataView(new ArrayBuffer(0));
  }
}

/** What is behind base64; throws where it is none. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

interface Dimensions {
  width: number;
  height: number;
}

/** How large a PNG, GIF, WebP or JPEG says that it is, whatever it is called. */
export function dimensions(head: DataView): Dimensions | null {
  const bytes = head.byteLength;
  const text = (at: number, length: number) => String.fromCharCode(...new Uint8Array(head.buffer, at, length));
  if (bytes >= 24 && text(1, 3) === "PNG") return { width: head.getUint32(16), height: head.getUint32(20) };
  if (bytes >= 10 && text(0, 3) === "GIF") return { width: head.getUint16(6, true), height: head.getUint16(8, true) };
  if (bytes >= 30 && text(0, 4) === "RIFF" && text(8, 4) === "WEBP") return ofWebp(head, text(12, 4));
  if (bytes >= 4 && head.getUint16(0) === 0xffd8) return ofJpeg(head);
  return null;
}

function ofWebp(head: DataView, kind: string): Dimensions | null {
  switch (kind) {
    case "VP8 ":
      return { width: head.getUint16(26, true) & 0x3fff, height: head.getUint16(28, true) & 0x3fff };
    case "VP8L": {
      const bits = head.getUint32(21, true);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case "VP8X": {
      const three = (at: number) => head.getUint16(at, true) + head.getUint8(at + 2) * 65_536;
      return { width: three(24) + 1, height: three(27) + 1 };
    }
    default:
      return null;
  }
}

/** A JPEG is a row of segments; that of its frame says how large it is. */
function ofJpeg(head: DataView): Dimensions | null {
  for (let at = 2; at + 9 <= head.byteLength; ) {
    if (head.getUint8(at) !== 0xff) return null;
    const kind = head.getUint8(at + 1);
    const isFrame = kind >= 0xc0 && kind <= 0xcf && kind !== 0xc4 && kind !== 0xc8 && kind !== 0xcc;
    if (isFrame) return { height: head.getUint16(at + 5), width: head.getUint16(at + 7) };
    at += 2 + head.getUint16(at + 2);
  }
  return null;
}
