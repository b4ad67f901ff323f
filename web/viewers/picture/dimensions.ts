/** The size of a picture, by the first bytes of its file: JPEG (ITU-T T.81, B.2.2) and PNG (W3C PNG, 11.2.1). */
import type { Size } from './zoom.ts'

/** As the file has it, before it is turned. Undefined for other files, and if these bytes do not say it. */
export function dimensionsIn(bytes: Uint8Array): Size | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.byteLength < 24) return undefined
  if (view.getUint32(0) === 0x89504e47) return sizeOf(view.getUint32(16), view.getUint32(20))
  return view.getUint16(0) === 0xffd8 ? dimensionsOfJpeg(view) : undefined
}

function dimensionsOfJpeg(view: DataView): Size | undefined {
  for (let at = 2; at + 9 <= view.byteLength;) {
    if (view.getUint8(at) !== 0xff) return undefined
    const marker = view.getUint8(at + 1)
    if (isFrame(marker)) return sizeOf(view.getUint16(at + 7), view.getUint16(at + 5))
    // Markers may be filled up with bytes of 0xff.
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2)
  }
  return undefined
}

/** SOF0 to SOF15, without DHT, JPG and DAC. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)
}

function sizeOf(width: number, height: number): Size | undefined {
  return width > 0 && height > 0 ? { width, height } : undefined
}
