/** A document of Word, page by page. */
import { parseAsync, renderDocument } from 'docx-preview'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { PreviewFailure } from './failure.ts'
import { scrollToTarget, startPreview } from './frame.tsx'
import { safeContent, withoutAddresses } from './safe-content.ts'
import { Zip } from './zip.ts'
import './docx.css'

const className = 'docx'

/** Nodes are made in a document that loads and runs nothing. */
const inert = document.implementation.createHTMLDocument()

const options = {
  className,
  inWrapper: false,
  ignoreFonts: true,
  ignoreLastRenderedPageBreak: false,
  renderAltChunks: false,
  renderComments: false,
  h: inertNode,
} as const

startPreview(async ({ name, bytes }) => {
  const parsed: unknown = await parseAsync(new Zip(bytes), options)
  if (!hasContent(parsed)) throw new PreviewFailure('damaged')
  const nodes = await renderDocument(parsed, options)
  const isStyle = (node: Node): node is HTMLStyleElement => node instanceof HTMLStyleElement
  const style = document.createElement('style')
  // In a layer, so that it does not win over the rules of this document.
  const rules = nodes.filter(isStyle).map(({ textContent }) => withBullets(withoutAddresses(textContent)))
  style.textContent = `@layer base { ${rules.join('\n')} }`
  const pages = nodes.filter((node) => node instanceof HTMLElement && !isStyle(node))
  inert.body.replaceChildren(...pages)
  const pictureOf = (address: string) => (address.startsWith('blob:') ? address : undefined)
  const content = safeContent(inert.body, { hasStyles: true, pictureOf })
  markHeadings(content, parsed)
  content.prepend(style)
  return { View: () => <Pages name={name} content={content} /> }
})

function Pages({ name, content }: { readonly name: string; readonly content: DocumentFragment }) {
  const place = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    const { current } = place
    if (!current) return
    current.replaceChildren(content)
    const follow = ({ detail }: Event & { readonly detail?: unknown }) =>
      scrollToTarget(current, String(detail).replace(/^#/, ''))
    current.addEventListener('target', follow)
    return () => current.removeEventListener('target', follow)
  }, [content])
  return <main ref={place} class="pages" tabIndex={0} aria-label={name} />
}

/** Bullets of the fonts Symbol and Wingdings, at the places of Unicode that have no characters of their own. */
const bullets: Readonly<Record<string, string>> = { '\uf0a7': '▪', '\uf0d8': '➢', '\uf0e0': '→', '\uf0fc': '✓' }

function withBullets(rules: string): string {
  return rules.replaceAll(/[\uf020-\uf0ff]/g, (character) => bullets[character] ?? '•')
}

interface Parsed {
  readonly documentPart: object
  readonly stylesPart?: { readonly styles?: readonly { readonly name?: unknown; readonly cssName?: unknown }[] }
}

function hasContent(parsed: unknown): parsed is Parsed {
  return typeof parsed === 'object' && parsed !== null && 'documentPart' in parsed
}

/** Makes headings of paragraphs with the style of one. The names of these styles are the same in each language. */
function markHeadings(content: DocumentFragment, { stylesPart }: Parsed): void {
  for (const { name, cssName } of stylesPart?.styles ?? []) {
    const [, level] = /^heading ([1-6])$/i.exec(String(name)) ?? []
    if (level === undefined) continue
    for (const paragraph of content.querySelectorAll(`.${CSS.escape(String(cssName))}`)) {
      paragraph.setAttribute('role', 'heading')
      paragraph.setAttribute('aria-level', level)
    }
  }
}

interface Described {
  readonly ns?: string
  readonly tagName: string
  readonly className?: string
  readonly style?: Readonly<Record<string, string>> | string
  readonly children?: readonly (Described | Node | string)[]
}

/** The node that docx-preview describes. Other properties, such as `href`, are set on the element. */
function inertNode(described: Described | Node | string): Node {
  if (typeof described === 'string') return inert.createTextNode(described)
  if (described instanceof Node) return described
  const { ns, tagName, className: classes, style, children = [], ...properties } = described
  if (tagName === '#comment') return inert.createComment('')
  const isFragment = tagName === '#fragment'
  const node = isFragment
    ? inert.createDocumentFragment()
    : inert.createElementNS(ns ?? 'http://www.w3.org/1999/xhtml', tagName)
  if (node instanceof Element) {
    if (classes) node.setAttribute('class', classes)
    if (typeof style === 'string') node.setAttribute('style', style)
    else if (style && 'style' in node) Object.assign(node.style as object, style)
    for (const [key, value] of Object.entries(properties)) {
      if (value !== undefined) Object.assign(node, { [key]: value })
    }
  }
  node.append(...children.map(inertNode))
  return node
}
