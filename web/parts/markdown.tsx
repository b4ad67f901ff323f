/**
 * Markdown of others as elements of the page. Only elements and attributes of plain text remain: no script, no style, no
 * form, and nothing that loads anything, not even a picture.
 */
import DOMPurify, { type Config } from 'dompurify'
import { Marked } from 'marked'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { addressOfLink, basePath } from './places.ts'

const tags = [
  ...['a', 'abbr', 'b', 'blockquote', 'br', 'code', 'dd', 'del', 'details', 'div', 'dl', 'dt', 'em'],
  ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 's', 'samp'],
  ...['small', 'span', 'strong', 'sub', 'summary', 'sup', 'table', 'tbody', 'td', 'tfoot', 'th', 'thead', 'tr'],
  ...['u', 'ul'],
]

const allowed: Config & { readonly RETURN_DOM_FRAGMENT: true } = {
  ALLOWED_TAGS: tags,
  ALLOWED_ATTR: ['href', 'title', 'colspan', 'rowspan', 'start', 'dir', 'lang', 'open'],
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|[^a-z]|[a-z+.-]+(?:[^a-z+.\-:]|$))/i,
  RETURN_DOM_FRAGMENT: true,
}

/** A picture is shown as its description. */
const markdown = new Marked({
  async: false,
  gfm: true,
  renderer: { image: ({ text }) => escaped(text), html: ({ text }) => plainTags(text) },
})

const plainTag = new RegExp(`(</?(?:${tags.join('|')})\\s*/?>)`, 'i')

/**
 * HTML within Markdown, of which only the allowed tags remain, without attributes. Others are removed here already: the
 * browser reports scripts and styles as violations of the policy wherever it parses them, also where none would run.
 */
function plainTags(html: string): string {
  return html
    .replace(/<!--.*?-->|<(script|style)\b.*?<\/\1\s*>/gis, '')
    .split(plainTag)
    .map((part, index) => (index % 2 === 1 ? part : escaped(part.replace(/<[^>]*>/g, ''))))
    .join('')
}

function escaped(text: string): string {
  return text.replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** `path`: the folder to which relative links refer. */
export default function Markdown({ text, path }: { readonly text: string; readonly path: string }) {
  const place = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => place.current?.replaceChildren(safeContent(text, path)), [text, path])
  return <div ref={place} class="markdown" />
}

function safeContent(text: string, path: string): DocumentFragment {
  const content = DOMPurify.sanitize(markdown.parse(text, { async: false }), allowed)
  for (const link of content.querySelectorAll('a')) {
    link.target = '_blank'
    link.rel = 'noopener noreferrer'
    const href = link.getAttribute('href') ?? ''
    if (isRelative(href)) link.href = location.origin + basePath + addressOfLink(path, href)
  }
  nestHeadings(content)
  return content
}

function isRelative(href: string): boolean {
  return href !== '' && !/^(?:[a-z][a-z+.-]*:|[/\\#?])/i.test(href)
}

/** Makes the headings parts of the page: they begin below its own, and no level is left out. */
function nestHeadings(content: DocumentFragment): void {
  let last = 1
  for (const heading of content.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    last = Math.min(Number(heading.tagName.slice(1)) + 1, last + 1, 6)
    const nested = document.createElement(`h${last}`)
    nested.replaceChildren(...heading.childNodes)
    heading.replaceWith(nested)
  }
}
