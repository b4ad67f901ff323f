/** Text with Markdown of others, made harmless: no scripts, no styles, no forms, and nothing is loaded from elsewhere. */
import DOMPurify from 'dompurify'
import { marked } from 'marked'
import { useEffect, useRef } from 'preact/hooks'

/** What HTML within Markdown may use besides text. */
const allowed = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ['style', 'form', 'input', 'button', 'select', 'textarea', 'iframe', 'audio', 'video', 'source', 'link'],
  FORBID_ATTR: ['style', 'srcset', 'id', 'name', 'class', 'background', 'poster'],
}

export default function Markdown({ text }: { readonly text: string }) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const content = DOMPurify.sanitize(marked.parse(text, { async: false }), {
      ...allowed,
      RETURN_DOM_FRAGMENT: true,
    })
    // A picture of another server would tell it who reads the text.
    for (const image of content.querySelectorAll('img')) {
      if (!image.src.startsWith('data:image/')) image.replaceWith(image.alt)
    }
    for (const link of content.querySelectorAll('a')) {
      link.target = '_blank'
      link.rel = 'noopener noreferrer'
    }
    place.current?.replaceChildren(content)
  }, [text])
  return <div ref={place} class="markdown" />
}
