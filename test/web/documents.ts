/** Small files of well-known formats. */

/** A PNG picture of four by four pixels. */
export const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAEElEQVR4nGPQqDgBRwzEcQA/UhaB575xBAAAAABJRU5ErkJggg==',
  'base64',
)

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
