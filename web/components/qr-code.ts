/** QR codes as pictures. */
import { create } from 'qrcode/lib/core/qrcode.js'

/** Modules of the light border around the code (ISO/IEC 18004, 6.3.8). */
const border = 4

/** The URL of an SVG picture of the text. */
export function qrCode(text: string): string {
  const { size, data } = create(text, { errorCorrectionLevel: 'M' }).modules
  let squares = ''
  data.forEach((isDark, index) => {
    if (isDark) squares += `M${(index % size) + border} ${Math.floor(index / size) + border}h1v1h-1z`
  })
  const side = size + 2 * border
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${side}" shape-rendering="crispEdges">` +
    `<path fill="#fff" d="M0 0h${side}v${side}H0z"/><path d="${squares}"/></svg>`
  return `data:image/svg+xml,${encodeURIComponent(svg)}`
}
