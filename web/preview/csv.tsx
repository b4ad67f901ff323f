/** Values that are separated by commas, tabs or the like, as a table. */
import Papa from 'papaparse'
import { decodedText } from './encoding.ts'
import { PreviewFailure } from './failure.ts'
import { startPreview } from './frame.tsx'
import { Steps } from './steps.ts'
import { Table, type TableContent } from './table.tsx'

const mostCells = 2_000_000
const mostColumns = 2000
/** Characters that are parsed at once, and from which the separator is guessed. */
const pieceLength = 2 ** 18
const sampleLength = 2 ** 16

startPreview(async ({ name, bytes, locale }) => {
  const text = decodedText(bytes).text.replace(/^\ufeff/, '')
  if (text.includes('\0')) throw new PreviewFailure('damaged')
  const { content, isCut } = await tableOf(text, locale)
  return { View: ({ texts }) => <Table label={name} cellLabel={texts.cell} content={content} />, isCut }
})

/** The first row names the columns. */
async function tableOf(text: string, locale: string): Promise<{ content: TableContent; isCut: boolean }> {
  const sample = Papa.parse<string[]>(text.slice(0, sampleLength), { preview: 50 })
  const { delimiter, linebreak } = sample.meta
  const parser = new Papa.Parser({ delimiter, newline: linebreak as '\n' })
  const steps = new Steps()
  const rows: string[][] = []
  let [start, length, cells, isCut] = [0, pieceLength, 0, false]
  while (start < text.length && !isCut) {
    const isLast = start + length >= text.length
    const { data, meta } = parser.parse(text.slice(start, start + length), 0, !isLast) as Papa.ParseResult<string[]>
    for (const row of data) {
      // A line without a value.
      if (row.length === 1 && row[0] === '') continue
      isCut ||= row.length > mostColumns
      cells += row.length
      if (cells > mostCells) break
      rows.push(row.slice(0, mostColumns))
    }
    isCut ||= cells > mostCells
    // A row that is longer than the piece is read with more at once.
    if (meta.cursor === 0 || data.length === 0) {
      if (isLast) break
      length *= 2
    } else {
      start += meta.cursor
      length = pieceLength
    }
    await steps.pause()
  }
  const [names = [], ...others] = rows
  const width = rows.reduce((most, row) => Math.max(most, row.length), 0)
  const number = new Intl.NumberFormat(locale)
  const columns = Array.from({ length: width }, (_, index) => names[index]?.trim() || number.format(index + 1))
  return { content: { rows: others, columns, firstNumber: 2 }, isCut }
}
