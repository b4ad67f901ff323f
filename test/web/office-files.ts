/** Small documents of other programs: ZIP archives of XML. */
import { strToU8, zipSync } from 'fflate'

type Members = Readonly<Record<string, string | Uint8Array>>

/** An archive with these members. */
export function archiveOf(members: Members): Buffer {
  const bytes = Object.entries(members).map(([name, content]) => [
    name,
    typeof content === 'string' ? strToU8(content) : content,
  ])
  return Buffer.from(zipSync(Object.fromEntries(bytes) as Record<string, Uint8Array>))
}

const xml = '<?xml version="1.0" encoding="UTF-8"?>'
const relationshipNames = 'http://schemas.openxmlformats.org/package/2006/relationships'
const officeNames = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
const wordNames = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="${officeNames}" \
xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" \
xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" \
xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"`

interface Relation {
  readonly id: string
  /** The last part of its type. */
  readonly type: string
  readonly target: string
  readonly isExternal?: boolean
}

function relations(list: readonly Relation[]): string {
  const elements = list.map(({ id, type, target, isExternal = false }) => {
    const mode = isExternal ? ' TargetMode="External"' : ''
    return `<Relationship Id="${id}" Type="${officeNames}/${type}" Target="${target}"${mode}/>`
  })
  return `${xml}<Relationships xmlns="${relationshipNames}">${elements.join('')}</Relationships>`
}

/** A document of Word. `body`: the XML of its content. `parts`: what its relations name. */
export function docxOf(body: string, list: readonly Relation[] = [], parts: Members = {}): Buffer {
  const styles = `${xml}<w:styles ${wordNames}><w:style w:type="paragraph" w:styleId="Titel1"><w:name w:val="heading 1"/>\
<w:rPr><w:sz w:val="40"/></w:rPr></w:style></w:styles>`
  return archiveOf({
    '[Content_Types].xml': `${xml}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">\
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>\
<Default Extension="xml" ContentType="application/xml"/><Default Extension="png" ContentType="image/png"/>\
<Default Extension="svg" ContentType="image/svg+xml"/></Types>`,
    '_rels/.rels': relations([{ id: 'd', type: 'officeDocument', target: 'word/document.xml' }]),
    'word/document.xml': `${xml}<w:document ${wordNames}><w:body>${body}<w:sectPr>\
<w:pgSz w:w="11906" w:h="16838"/><w:pgMar w:top="1134" w:right="1134" w:bottom="1134" w:left="1134"/></w:sectPr></w:body>\
</w:document>`,
    'word/_rels/document.xml.rels': relations([{ id: 'styles', type: 'styles', target: 'styles.xml' }, ...list]),
    'word/styles.xml': styles,
    ...parts,
  })
}

/** A paragraph of Word. `inside`: XML. */
export function paragraph(inside: string, style?: string): string {
  const properties = style === undefined ? '' : `<w:pPr><w:pStyle w:val="${style}"/></w:pPr>`
  return `<w:p>${properties}${inside}</w:p>`
}

export function run(text: string): string {
  return `<w:r><w:t xml:space="preserve">${text}</w:t></w:r>`
}

/** A picture of Word: `id` is that of its relation. */
export function drawing(id: string, relation: 'embed' | 'link' = 'embed'): string {
  return `<w:r><w:drawing><wp:inline><wp:extent cx="400000" cy="400000"/><a:graphic>\
<a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:pic><pic:blipFill>\
<a:blip r:${relation}="${id}"/></pic:blipFill><pic:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="400000" cy="400000"/></a:xfrm>\
</pic:spPr></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>`
}

const sheetNames = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="${officeNames}"`

interface Workbook {
  /** The XML of the rows of each sheet, by its name. */
  readonly sheets: Readonly<Record<string, string>>
  readonly texts?: readonly string[]
  /** The codes of number formats: the style of a cell is the number of its code. */
  readonly formats?: readonly string[]
  /** XML after the rows of each sheet. */
  readonly after?: string
}

/** A workbook of Excel. */
export function xlsxOf({ sheets, texts = [], formats = [], after = '' }: Workbook): Buffer {
  const names = Object.keys(sheets)
  const first = 164
  return archiveOf({
    '_rels/.rels': relations([{ id: 'w', type: 'officeDocument', target: 'xl/workbook.xml' }]),
    'xl/workbook.xml': `${xml}<workbook ${sheetNames}><sheets>${names
      .map((name, index) => `<sheet name="${name}" sheetId="${index + 1}" r:id="s${index}"/>`)
      .join('')}</sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': relations([
      ...names.map((_, index) => ({ id: `s${index}`, type: 'worksheet', target: `worksheets/sheet${index}.xml` })),
      { id: 't', type: 'sharedStrings', target: 'sharedStrings.xml' },
      { id: 'f', type: 'styles', target: '/xl/styles.xml' },
    ]),
    'xl/sharedStrings.xml': `${xml}<sst ${sheetNames}>${texts.map((text) => `<si>${text}</si>`).join('')}</sst>`,
    'xl/styles.xml': `${xml}<styleSheet ${sheetNames}><numFmts>${formats
      .map((code, index) => `<numFmt numFmtId="${first + index}" formatCode="${code}"/>`)
      .join('')}</numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs>${formats
      .map((_, index) => `<xf numFmtId="${first + index}"/>`)
      .join('')}</cellXfs></styleSheet>`,
    ...Object.fromEntries(
      Object.values(sheets).map((rows, index) => [
        `xl/worksheets/sheet${index}.xml`,
        `${xml}<worksheet ${sheetNames}><sheetData>${rows}</sheetData>${after}</worksheet>`,
      ]),
    ),
  })
}

interface BookFile {
  /** The XHTML of each chapter, by its title. */
  readonly chapters: Readonly<Record<string, string>>
  readonly members?: Members
}

/** A book in EPUB 3. Chapters are `c0.xhtml`, `c1.xhtml` … in `OEBPS/`. */
export function epubOf({ chapters, members = {} }: BookFile): Buffer {
  const titles = Object.keys(chapters)
  return archiveOf({
    mimetype: 'application/epub+zip',
    'META-INF/container.xml': `${xml}<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">\
<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>`,
    'OEBPS/book.opf': `${xml}<package xmlns="http://www.idpf.org/2007/opf" version="3.0">\
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A book</dc:title><dc:language>en</dc:language></metadata>\
<manifest><item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>${titles
      .map((_, index) => `<item id="c${index}" href="c${index}.xhtml" media-type="application/xhtml+xml"/>`)
      .join(
        '',
      )}</manifest><spine>${titles.map((_, index) => `<itemref idref="c${index}"/>`).join('')}</spine></package>`,
    'OEBPS/nav.xhtml': pageOf(
      `<nav epub:type="toc"><ol>${titles
        .map((title, index) => `<li><a href="c${index}.xhtml">${title}</a></li>`)
        .join('')}</ol></nav>`,
    ),
    ...Object.fromEntries(Object.values(chapters).map((body, index) => [`OEBPS/c${index}.xhtml`, pageOf(body)])),
    ...members,
  })
}

function pageOf(body: string): string {
  return `${xml}<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title/>\
</head><body>${body}</body></html>`
}
