/** The values of a workbook of Excel (ECMA-376 part 1, 18): its sheets, read one by one. Formulas are not computed. */
import { PreviewFailure } from './failure.ts'
import { NumberFormats } from './number-format.ts'
import type { TableContent } from './table.tsx'
import { attribute, readXml } from './xml.ts'
import { memberAt, type Zip } from './zip.ts'

const mostSheets = 500
const mostCells = 1_000_000
const mostRows = 200_000
/** The columns of the format, to XFD. */
const mostColumns = 16_384
/** Shared texts, and the characters of all of them. */
const mostTexts = 1_000_000
const mostCharacters = 64 * 2 ** 20

export interface SheetContent extends TableContent {
  readonly isCut: boolean
}

interface Sheet {
  readonly name: string
  readonly path: string
}

export class Workbook {
  readonly sheets: readonly Sheet[]
  readonly #zip: Zip
  readonly #texts: readonly string[]
  /** The number of the format of each style. */
  readonly #styles: readonly string[]
  readonly #formats: NumberFormats

  private constructor(zip: Zip, parts: { sheets: Sheet[]; texts: string[]; styles: string[]; formats: NumberFormats }) {
    this.#zip = zip
    this.sheets = parts.sheets
    this.#texts = parts.texts
    this.#styles = parts.styles
    this.#formats = parts.formats
  }

  /** Rejects with a `PreviewFailure` if it is none. */
  static async open(zip: Zip, locale: string): Promise<Workbook> {
    const top = await relationsOf(zip, '')
    const path = top.find(({ type }) => type === 'officeDocument')?.target ?? 'xl/workbook.xml'
    const bytes = zip.read(path)
    if (!bytes) throw new PreviewFailure('damaged')
    const relations = await relationsOf(zip, path)
    const listed: { readonly name: string; readonly id: string }[] = []
    let is1904 = false
    await readXml(bytes, {
      open: (element, attributes) => {
        if (element === 'workbookPr') is1904 = /^(?:1|true)$/.test(attributes.date1904 ?? '')
        if (element !== 'sheet' || (attributes.state ?? 'visible') !== 'visible' || listed.length >= mostSheets) return
        listed.push({ name: attributes.name ?? '', id: attribute(attributes, 'id') ?? '' })
      },
    })
    const sheets = listed.flatMap(({ name, id }) => {
      const relation = relations.find((each) => each.id === id)
      return relation?.type === 'worksheet' ? [{ name, path: relation.target }] : []
    })
    if (sheets.length === 0) throw new PreviewFailure('damaged')
    const partOf = (wanted: string) => zip.read(relations.find(({ type }) => type === wanted)?.target ?? '')
    const texts = await textsOf(partOf('sharedStrings'))
    const { codes, styles } = await stylesOf(partOf('styles'))
    return new Workbook(zip, { sheets, texts, styles, formats: new NumberFormats(codes, is1904, locale) })
  }

  /** Rejects with a `PreviewFailure`. */
  async read({ path }: Sheet): Promise<SheetContent> {
    const bytes = this.#zip.read(path)
    if (!bytes) throw new PreviewFailure('damaged')
    const rows: (string | undefined)[][] = []
    let [row, column, cells, width, isCut] = [-1, -1, 0, 0, false]
    let [type, style, value, isValue] = ['', '', '', false]
    await readXml(bytes, {
      open: (element, attributes) => {
        if (element === 'row') [row, column] = [numberedFrom1(attributes.r) ?? row + 1, -1]
        else if (element === 'c') {
          column = columnOf(attributes.r ?? '') ?? column + 1
          ;[type, style, value] = [attributes.t ?? 'n', attributes.s ?? '', '']
        } else if (element === 'v' || element === 't') isValue = true
        else if (element === 'rPh') isValue = false
      },
      text: (part) => {
        if (isValue) value += part
      },
      close: (element) => {
        if (element === 'v' || element === 't') isValue = false
        if (element === 'sheetData') return true
        if (element !== 'c' || value === '') return false
        if (row >= mostRows || cells >= mostCells) return (isCut = true)
        if (column >= mostColumns) return false
        cells++
        width = Math.max(width, column + 1)
        const shown = this.#shown(value, type, style)
        while (rows.length <= row) rows.push([])
        const line = rows[row]
        if (line) line[column] = shown
        return false
      },
    })
    const columns = Array.from({ length: width }, (_, index) => columnName(index))
    return { rows, columns, firstNumber: 1, isCut }
  }

  #shown(value: string, type: string, style: string): string {
    switch (type) {
      case 's':
        return this.#texts[Number(value)] ?? ''
      case 'b':
        return value === '1' ? 'TRUE' : 'FALSE'
      case 'n': {
        const number = Number(value)
        return Number.isFinite(number) ? this.#formats.format(number, this.#styles[Number(style)] ?? '0') : value
      }
      default:
        return value
    }
  }
}

interface Relation {
  readonly id: string
  /** The last part of its address. */
  readonly type: string
  /** The name of the member. */
  readonly target: string
}

/** The relations of a part; those of the package for '' (ECMA-376 part 2, 9.3). */
async function relationsOf(zip: Zip, part: string): Promise<readonly Relation[]> {
  const folder = part.slice(0, part.lastIndexOf('/') + 1)
  const bytes = zip.read(`${folder}_rels/${part.slice(folder.length)}.rels`)
  const relations: Relation[] = []
  if (!bytes) return relations
  await readXml(bytes, {
    open: (element, { Id: id = '', Type: type = '', Target: target = '', TargetMode: mode }) => {
      if (element !== 'Relationship' || mode === 'External') return
      const { member } = memberAt(target, part) ?? {}
      if (member !== undefined) relations.push({ id, type: type.slice(type.lastIndexOf('/') + 1), target: member })
    },
  })
  return relations
}

/** The shared texts, without the readings of their characters. */
async function textsOf(bytes: Uint8Array | undefined): Promise<string[]> {
  const texts: string[] = []
  if (!bytes) return texts
  let [text, isText, isReading, characters] = ['', false, false, 0]
  await readXml(bytes, {
    open: (element) => {
      if (element === 'si') text = ''
      else if (element === 'rPh') isReading = true
      else if (element === 't') isText = !isReading
    },
    text: (part) => {
      if (isText) text += part
    },
    close: (element) => {
      if (element === 't') isText = false
      else if (element === 'rPh') isReading = false
      else if (element === 'si') {
        texts.push(text)
        characters += text.length
        if (texts.length > mostTexts || characters > mostCharacters) throw new PreviewFailure('tooLarge')
      }
      return false
    },
  })
  return texts
}

async function stylesOf(bytes: Uint8Array | undefined): Promise<{ codes: Map<string, string>; styles: string[] }> {
  const codes = new Map<string, string>()
  const styles: string[] = []
  let isOfCells = false
  if (bytes) {
    await readXml(bytes, {
      open: (element, { numFmtId = '0', formatCode = '' }) => {
        if (element === 'numFmt') codes.set(numFmtId, formatCode)
        else if (element === 'cellXfs') isOfCells = true
        else if (element === 'xf' && isOfCells) styles.push(numFmtId)
      },
      close: (element) => {
        if (element === 'cellXfs') isOfCells = false
        return false
      },
    })
  }
  return { codes, styles }
}

/** `1` is 0. */
function numberedFrom1(text: string | undefined): number | undefined {
  const number = Number(text)
  return Number.isInteger(number) && number > 0 ? number - 1 : undefined
}

/** The column of a cell: that of `B7` is 1. */
function columnOf(cell: string): number | undefined {
  const [letters] = /^[A-Z]{1,3}/.exec(cell) ?? []
  if (letters === undefined) return undefined
  let number = 0
  for (let index = 0; index < letters.length; index++) number = number * 26 + letters.charCodeAt(index) - 64
  return number - 1
}

function columnName(index: number): string {
  const last = String.fromCharCode(65 + (index % 26))
  return index < 26 ? last : columnName(Math.floor(index / 26) - 1) + last
}
