/** Content of others as elements: without scripts, frames, forms and whatever loads something. */
import DOMPurify, { type Config } from 'dompurify'
import { outerAddress } from './messages.ts'

const forbiddenTags = [
  ...['audio', 'button', 'datalist', 'dialog', 'fieldset', 'form', 'input', 'meter', 'optgroup', 'option', 'output'],
  ...['picture', 'progress', 'select', 'source', 'style', 'textarea', 'track', 'video'],
]

const allowed: Config & { readonly RETURN_DOM_FRAGMENT: true } = {
  FORBID_TAGS: forbiddenTags,
  FORBID_ATTR: ['action', 'autofocus', 'background', 'cite', 'contenteditable', 'poster', 'srcset', 'tabindex'],
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  // What a link may be is decided below.
  ALLOWED_URI_REGEXP: /^(?:(?:https?|mailto|blob):|(?![a-z][a-z0-9+.-]*:))/i,
  RETURN_DOM_FRAGMENT: true,
}

interface Content {
  /** Styles are kept, without addresses. */
  readonly hasStyles: boolean
  /** The address of a picture in this document; undefined: there is none. */
  readonly pictureOf: (address: string) => string | undefined
}

/**
 * A copy of `root` that can be shown. A link has no address of its own: `data-address` is one of another site, and
 * `data-target` one within the file.
 */
export function safeContent(root: Node, { hasStyles, pictureOf }: Content): DocumentFragment {
  const forbidden = hasStyles ? [] : ['class', 'style']
  DOMPurify.addHook('afterSanitizeAttributes', (node) => {
    for (const name of ['href', 'xlink:href', 'src']) {
      const address = node.getAttribute(name)
      if (address === null) continue
      node.removeAttribute(name)
      if (node.localName === 'a') addLink(node, address)
      else {
        const picture = /^(?:img|image)$/.test(node.localName) ? pictureOf(address) : undefined
        if (picture !== undefined) node.setAttribute(name, picture)
      }
    }
    const style = node.getAttribute('style')
    if (style !== null) node.setAttribute('style', withoutAddresses(style))
  })
  try {
    return DOMPurify.sanitize(root, { ...allowed, FORBID_ATTR: [...(allowed.FORBID_ATTR ?? []), ...forbidden] })
  } finally {
    DOMPurify.removeAllHooks()
  }
}

function addLink(link: Element, address: string): void {
  const outer = outerAddress(address)
  if (outer !== undefined) {
    link.setAttribute('data-address', outer)
    link.setAttribute('title', outer)
  } else if (/^[a-z][a-z0-9+.-]*:|^\/\//i.test(address)) return
  else link.setAttribute('data-target', address)
  link.setAttribute('role', 'link')
  link.setAttribute('tabindex', '0')
}

/** The style without addresses, except those of pictures of this document. */
export function withoutAddresses(style: string): string {
  return style.replaceAll(/(?:url\((?!\s*["']?blob:)|image-set\()[^)]*\)|@import[^;]*;?|expression\(/gi, 'none')
}
