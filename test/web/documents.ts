/** Small files of well-known formats. */
import { crc32, deflateSync } from 'node:zlib'

/** A PNG picture of four by four pixels. */
export const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAEElEQVR4nGPQqDgBRwzEcQA/UhaB575xBAAAAABJRU5ErkJggg==',
  'base64',
)

/** A film of 64 by 36 pixels, six seconds long (WebM, VP8). */
export const film = Buffer.from(
  'GkXfo59ChoEBQveBAULygQRC84EIQoKEd2VibUKHgQJChYECGFOAZwEAAAAAAAOLEU2bdLpNu4tTq4QVSalmU6yBoU27i1OrhBZU' +
    'rmtTrIHYTbuMU6uEElTDZ1OsggEeTbuMU6uEHFO7a1OsggNQ7AEAAAAAAABZAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' +
    'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAVSalmsirXsYMPQkBNgI1M' +
    'YXZmNTkuMjcuMTAwV0GNTGF2ZjU5LjI3LjEwMESJiEC3cAAAAAAAFlSua8GuAQAAAAAAADjXgQFzxYjX/Yh3f8XusJyBACK1nIN1' +
    'bmSIgQCGhVZfVlA4g4EBI+ODhB3NZQDgibCBQLqBJJqBAhJUw2f9c3OgY8CAZ8iaRaOHRU5DT0RFUkSHjUxhdmY1OS4yNy4xMDBz' +
    'c9djwItjxYjX/Yh3f8XusGfIoUWjh0VOQ09ERVJEh5RMYXZjNTkuMzcuMTAwIGxpYnZweGfIokWjiERVUkFUSU9ORIeUMDA6MDA6' +
    'MDYuMDAwMDAwMDAwAAAfQ7Z1QYnngQCjwIEAAIBQAwCdASpAACQAAEcIhYWIhYSIAgICdaoD+AIHCOD99CbPLgD++2iX/z0zXmD/' +
    'Jz/9uR/tyP9uR/+2wgCjloEB9ADRAQABEBAAGAAYWC/0AAiMAACjloED6ADRAQABEBAAGAAYWC/0AAiMAACjloEF3ADRAQABEBAA' +
    'GAAYWC/0AAiMAACjwIEH0IBQAwCdASpAACQAAEcIhYWIhYSIAgICdaoD+AIHCOD99CbPLgD++2iX/z0zXmD/Jz/9uR/tyP9uR/+2' +
    'wgCjloEJxADRAQABEBAAGAAYWC/0AAiMAACjloELuADRAQABEBAAGAAYWC/0AAiMAACjloENrADRAQABEBAAGAAYWC/0AAiMAACj' +
    'wIEPoIBQAwCdASpAACQAAEcIhYWIhYSIAgICdaoD+AIHCOD99CbPLgD++2iX/z0zXmD/Jz/9uR/tyP9uR/+2wgCjloERlADRAQAB' +
    'EBAAGAAYWC/0AAiMAACjloETiADRAQABEBAAGAAYWC/0AAiMAAAfQ7Z1nOeCFXyjloEAAADRAQABEBAAGAAYWC/0AAiMAAAcU7tr' +
    'truPs4EAt4r3gQHxggGg8IEDu5CzggfQt4r3gQHxggGg8IGNu5Gzgg+gt4v3gQHxggGg8IIBFw==',
  'base64',
)

/** A PNG picture of one color, red, green and blue. `details`: as `detailsOf` makes them. */
export function pngOf(width: number, height: number, color: readonly number[], details?: Buffer): Buffer {
  const chunk = (type: string, content: Buffer) => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), content])
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(content.length)
    sum.writeUInt32BE(crc32(body))
    return Buffer.concat([length, body, sum])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Eight bits for each of three colors.
  header.set([8, 2], 8)
  const row = Buffer.concat([Buffer.alloc(1), Buffer.alloc(3 * width, Buffer.from(color))])
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    ...(details ? [chunk('eXIf', details)] : []),
    chunk('IDAT', deflateSync(Buffer.concat(Array<Buffer>(height).fill(row)))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** The values of a tag: a text, numbers of 32 bits, fractions, or another directory. */
type TagValue = string | readonly number[] | readonly (readonly [number, number])[] | Tags
export interface Tags {
  readonly [tag: number]: TagValue
}

/** What a camera writes into pictures (TIFF 6.0, big-endian): directories of tags. */
export function detailsOf(tags: Tags): Buffer {
  const parts: Buffer[] = [Buffer.from('4d4d002a00000008', 'hex')]
  let end = 8
  const add = (part: Buffer): number => {
    parts.push(part)
    end += part.length
    return end - part.length
  }
  const write = (directory: Tags): number => {
    const entries = Object.entries(directory)
    const table = Buffer.alloc(2 + 12 * entries.length + 4)
    table.writeUInt16BE(entries.length)
    const start = add(table)
    for (const [index, [tag, value]] of entries.entries()) {
      const at = 2 + 12 * index
      const isText = typeof value === 'string'
      const isFraction = Array.isArray(value) && Array.isArray(value[0])
      const numbers = Array.isArray(value) ? (value.flat() as number[]) : []
      const content = isText ? Buffer.from(`${value}\0`) : Buffer.alloc(4 * numbers.length)
      if (!isText) for (const [place, each] of numbers.entries()) content.writeUInt32BE(each, 4 * place)
      const count = isText ? content.length : isFraction ? numbers.length / 2 : Math.max(1, numbers.length)
      table.writeUInt16BE(Number(tag), at)
      table.writeUInt16BE(isText ? 2 : isFraction ? 5 : 4, at + 2)
      table.writeUInt32BE(count, at + 4)
      if (!isText && !Array.isArray(value)) table.writeUInt32BE(write(value as Tags), at + 8)
      else if (content.length <= 4) content.copy(table, at + 8)
      else table.writeUInt32BE(add(content), at + 8)
    }
    return start
  }
  write(tags)
  return Buffer.concat(parts)
}

/** A WAV file of a pure tone, `seconds` long. */
export function tone(seconds: number): Buffer {
  const rate = 8000
  const samples = Buffer.alloc(rate * seconds)
  for (let index = 0; index < samples.length; index++) samples[index] = 128 + 100 * Math.sin(index / 3)
  const header = Buffer.alloc(44)
  header.write('RIFF', 0)
  header.writeUInt32LE(36 + samples.length, 4)
  header.write('WAVEfmt ', 8)
  header.writeUInt32LE(16, 16)
  // PCM, one channel of eight bits.
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(rate, 24)
  header.writeUInt32LE(rate, 28)
  header.writeUInt16LE(1, 32)
  header.writeUInt16LE(8, 34)
  header.write('data', 36)
  header.writeUInt32LE(samples.length, 40)
  return Buffer.concat([header, samples])
}

/** A PDF document with this text on each page. `action`: JavaScript that a viewer is asked to run when it opens it. */
export function pdfOf(text: string, action?: string, pages = 1): Buffer {
  const content = `BT /F1 24 Tf 72 720 Td (${text}) Tj ET`
  const opening = action === undefined ? '' : ` /OpenAction << /S /JavaScript /JS (${action}) >>`
  const firstPage = 5
  const numbers = Array.from({ length: pages }, (_, index) => firstPage + index)
  const objects = [
    `<< /Type /Catalog /Pages 2 0 R${opening} >>`,
    `<< /Type /Pages /Kids [${numbers.map((number) => `${number} 0 R`).join(' ')}] /Count ${pages} >>`,
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...numbers.map(
      () =>
        '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 3 0 R /Resources << /Font << /F1 4 0 R >> >> >>',
    ),
  ]
  let document = '%PDF-1.4\n'
  const places = objects.map((object, index) => {
    const place = document.length
    document += `${index + 1} 0 obj\n${object}\nendobj\n`
    return place
  })
  const table = document.length
  document += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`
  for (const place of places) document += `${String(place).padStart(10, '0')} 00000 n \n`
  document += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${table}\n%%EOF\n`
  return Buffer.from(document, 'latin1')
}
