/**
 * Markdown of others as elements of the page. Only elements and attributes of plain text remain: no script, no style,
 * no form, and nothing that loads anything. Pictures of the tree are added afterwards; those of other hosts are links.
 */
import DOMPurify, { type Config } from 'dompurify'
import { Marked } from 'marked'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { post } from '../api/client.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { addressOf, basePath, linked } from '../components/places.ts'
import { useSource, type Source } from '../entries/source.ts'
import { viewerOf } from './viewer.ts'
import './markdown.css'

const tags = [
  ...['a', 'abbr', 'b', 'blockquote', 'br', 'code', 'dd', 'del', 'details', 'div', 'dl', 'dt', 'em'],
  ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 's', 'samp'],
  ...['small', 'span', 'strong', 'sub', 'summary', 'sup', 'table', 'tbody', 'td', 'tfoot', 'th', 'thead', 'tr'],
  ...['u', 'ul'],
]

const allowed: Config & { readonly RETURN_DOM_FRAGMENT: true } = {
  ALLOWED_TAGS: tags,
  ALLOWED_ATTR: ['href', 'cite', 'title', 'colspan', 'rowspan', 'start', 'dir', 'lang', 'open'],
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|(?![a-z][a-z0-9+.-]*:))/i,
  RETURN_DOM_FRAGMENT: true,
}

/** A picture is its description, with the address in `cite`. */
const markdown = new Marked({
  async: false,
  gfm: true,
  renderer: {
    image: ({ href, text }) => `<span cite="${escaped(href)}">${escaped(text || href)}</span>`,
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    html: ({ text }) => plainTags(text),
  },
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
  return text.replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

/** The most pictures of one document: each costs a request. */
const mostPictures = 100

interface MarkdownProps {
  readonly text: string
  /** The folder to which relative links refer. */
  readonly path: string
  /** The page for the target of a link; undefined: there is none. Absent: links and pictures are of the source. */
  readonly pageFor?: ((target: string) => string | undefined) | undefined
}

export default function Markdown({ text, path, pageFor }: MarkdownProps) {
  const place = useRef<HTMLDivElement>(null)
  const source = useSource()
  const [, navigate] = useLocation()
  useLayoutEffect(() => {
    place.current?.replaceChildren(safeContent({ text, path, pageFor }, source))
    headingOf(place.current, location.hash.slice(1))?.scrollIntoView()
  }, [text, path, pageFor, source])
  function onClick(event: MouseEvent): void {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!link?.hasAttribute('href') || link.target !== '') return
    if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    const href = link.getAttribute('href') ?? ''
    if (href.startsWith('#')) headingOf(place.current, href.slice(1))?.scrollIntoView()
    else navigate(href.slice(consoleUrl.length))
  }
  return <div ref={place} class="markdown" onClick={onClick} />
}

/** The beginning of the URLs of the console's pages. */
const consoleUrl = location.origin + basePath

function safeContent({ text, path, pageFor }: MarkdownProps, source: Source): DocumentFragment {
  const content = DOMPurify.sanitize(markdown.parse(text, { async: false }), allowed)
  for (const link of content.querySelectorAll('a')) {
    const href = link.getAttribute('href') ?? ''
    const target = linked(path, href, pageFor ? '/' : source.top)
    const page = target === undefined ? undefined : (pageFor ?? addressOf)(target)
    if (page !== undefined) link.href = consoleUrl + page + (/[?#].*$/s.exec(href)?.[0] ?? '')
    else if (/^(?:https?|mailto):/i.test(href)) openElsewhere(link)
    else if (!href.startsWith('#')) link.removeAttribute('href')
  }
  const pictures = [...content.querySelectorAll<HTMLElement>('span[cite]')]
  if (!pageFor) for (const picture of pictures.splice(0, mostPictures)) addPicture(picture, path, source)
  for (const picture of pictures) picture.removeAttribute('cite')
  nestHeadings(content)
  return content
}

/** The heading that a link within the document leads to: by its text, as other programs derive names from it. */
function headingOf(document: HTMLElement | null, name: string): Element | undefined {
  const headings = document?.querySelectorAll('h1, h2, h3, h4, h5, h6') ?? []
  return [...headings].find(({ textContent: text }) => {
    const own = text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
    return own === name.toLowerCase() || encodeURIComponent(own) === name
  })
}

function openElsewhere(link: HTMLAnchorElement): void {
  link.target = '_blank'
  link.rel = 'noopener noreferrer'
}

/** Shows a picture of the source in the place of its description. Makes any other a link, unless it is in one. */
function addPicture(description: HTMLElement, folder: string, source: Source): void {
  const address = description.getAttribute('cite') ?? ''
  description.removeAttribute('cite')
  const path = linked(folder, address, source.top)
  if (path !== undefined) void showPicture(description, path, source)
  else if (/^https?:/i.test(address) && !description.closest('a')) {
    const link = document.createElement('a')
    link.href = address
    openElsewhere(link)
    link.append(...description.childNodes)
    description.replaceWith(link)
  }
}

/** The description remains if there is no such picture. */
async function showPicture(description: HTMLElement, path: string, { previewUrl }: Source): Promise<void> {
  try {
    const file = await post('/api/fs/get', { path, password: folderPasswords.of(path) })
    if (viewerOf(file) !== 'image') return
    const image = document.createElement('img')
    image.src = previewUrl(path, file.sign)
    image.alt = description.textContent
    description.replaceWith(image)
  } catch {
    // The user may not see it, or it does not exist.
  }
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
