/** A book in EPUB: its chapters in their order, its contents, and what each chapter shows (EPUB 3.3, EPUB 2.0.1). */
import { PreviewFailure } from './failure.ts'
import { safeContent } from './safe-content.ts'
import { parsedDocument } from './xml.ts'
import { memberAt, type Zip } from './zip.ts'

/** Entries of the contents, and how deep they are shown. */
const mostEntries = 5000
const deepestEntry = 6
const mostChapters = 20_000

/** Pictures that are shown. In the element of a picture SVG runs and loads nothing. */
const pictureTypes: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  gif: 'image/gif',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
}

export interface ContentsEntry {
  readonly title: string
  /** From 0. */
  readonly depth: number
  readonly chapter: number
  readonly fragment: string
}

export interface Chapter {
  readonly content: DocumentFragment
  /** Releases its pictures. */
  readonly release: () => void
}

export class Book {
  readonly title: string
  /** The tag of its language (BCP 47); empty if it has none. */
  readonly language: string
  readonly isRightToLeft: boolean
  /** The names of their members. */
  readonly chapters: readonly string[]
  readonly contents: readonly ContentsEntry[]
  readonly #zip: Zip

  /** Throws a `PreviewFailure` if it is none. */
  constructor(zip: Zip) {
    this.#zip = zip
    const container = this.#document('META-INF/container.xml')
    const path = element(container, 'rootfile')?.getAttribute('full-path') ?? ''
    const book = this.#document(path)
    const items = new Map(elements(book, 'item').map((item) => [item.getAttribute('id') ?? '', item]))
    const memberOf = (item: Element | undefined) => memberAt(item?.getAttribute('href') ?? '', path)?.member ?? ''
    this.title = textOf(element(book, 'title'))
    const language = textOf(element(book, 'language'))
    this.language = /^[a-z]{2,3}(?:-[a-z0-9]{1,8})*$/i.test(language) ? language : ''
    const spine = element(book, 'spine')
    this.isRightToLeft = spine?.getAttribute('page-progression-direction') === 'rtl'
    this.chapters = elements(spine ?? book, 'itemref')
      .slice(0, mostChapters)
      .map((reference) => memberOf(items.get(reference.getAttribute('idref') ?? '')))
      .filter((member) => zip.names.has(member))
    if (this.chapters.length === 0) throw new PreviewFailure('damaged')
    if (this.#isEncrypted()) throw new PreviewFailure('protected')
    const navigation = [...items.values()].find((item) => item.getAttribute('properties')?.split(/\s+/).includes('nav'))
    this.contents = this.#contentsIn(memberOf(navigation), memberOf(items.get(spine?.getAttribute('toc') ?? '')))
  }

  /** Whether chapters are encrypted. Fonts often are, and are not needed. */
  #isEncrypted(): boolean {
    const member = 'META-INF/encryption.xml'
    if (!this.#zip.names.has(member)) return false
    const encrypted = elements(this.#document(member), 'CipherReference').map((each) => each.getAttribute('URI') ?? '')
    return encrypted.some((uri) => this.chapters.includes(memberAt(uri, '')?.member ?? ''))
  }

  /** The entries of the navigation document (EPUB 3), else those of the NCX (EPUB 2). */
  #contentsIn(navigation: string, ncx: string): readonly ContentsEntry[] {
    const entries = this.#entriesOf(navigation, 'li', 'a', 'href')
    return entries.length > 0 ? entries : this.#entriesOf(ncx, 'navPoint', 'content', 'src')
  }

  #entriesOf(member: string, item: string, target: string, address: string): readonly ContentsEntry[] {
    if (!this.#zip.names.has(member)) return []
    const list = this.#document(member, true)
    const navs = elements(list, 'nav')
    const root = navs.find((nav) => nav.getAttribute('epub:type')?.split(/\s+/).includes('toc')) ?? navs[0]
    return elements(root ?? element(list, 'navMap') ?? list, item)
      .slice(0, mostEntries)
      .flatMap((each) => {
        const link = element(each, target)
        // The link of an entry below it is not its own.
        if (link?.closest(item) !== each) return []
        const at = memberAt(link.getAttribute(address) ?? '', member)
        const chapter = this.chapters.indexOf(at?.member ?? '')
        const title = textOf(target === 'a' ? link : element(each, 'text'))
        if (chapter < 0 || title === '') return []
        return [{ title, depth: depthOf(each, item), chapter, fragment: at?.fragment ?? '' }]
      })
  }

  /** Throws a `PreviewFailure` if it cannot be read. */
  chapter(index: number): Chapter {
    const member = this.chapters[index] ?? ''
    const { body, documentElement } = this.#document(member, true)
    const urls = new Map<string, string>()
    const pictureOf = (address: string) => this.#pictureUrl(address, member, urls)
    // A chapter may be a drawing.
    const root = (body as HTMLElement | null) ?? documentElement
    const content = safeContent(root, { hasStyles: false, pictureOf })
    return { content, release: () => urls.forEach((url) => URL.revokeObjectURL(url)) }
  }

  /** The chapter that a link in another one leads to. */
  targetOf(address: string, chapter: number): { readonly chapter: number; readonly fragment: string } | undefined {
    const at = memberAt(address, this.chapters[chapter] ?? '')
    const index = this.chapters.indexOf(at?.member ?? '')
    return at && index >= 0 ? { chapter: index, fragment: at.fragment } : undefined
  }

  #pictureUrl(address: string, chapter: string, urls: Map<string, string>): string | undefined {
    const member = memberAt(address, chapter)?.member ?? ''
    const type = pictureTypes[member.slice(member.lastIndexOf('.') + 1).toLowerCase()]
    const known = urls.get(member)
    if (known !== undefined || type === undefined) return known
    const bytes = this.#zip.read(member)
    if (!bytes) return undefined
    const url = URL.createObjectURL(new Blob([bytes], { type }))
    urls.set(member, url)
    return url
  }

  #document(member: string, isHtml = false): Document {
    const bytes = this.#zip.read(member)
    if (!bytes) throw new PreviewFailure('damaged')
    return parsedDocument(bytes, isHtml)
  }
}

/** Elements by their names, whatever their namespaces are. */
function elements(root: Document | Element, name: string): readonly Element[] {
  return [...root.getElementsByTagNameNS('*', name)]
}

function element(root: Document | Element, name: string): Element | undefined {
  return root.getElementsByTagNameNS('*', name)[0]
}

function textOf(found: Element | undefined): string {
  return found?.textContent.replaceAll(/\s+/g, ' ').trim().slice(0, 300) ?? ''
}

function depthOf(entry: Element, item: string): number {
  let depth = 0
  for (let above = entry.parentElement; above && depth < deepestEntry; above = above.parentElement) {
    if (above.localName === item) depth++
  }
  return depth
}
