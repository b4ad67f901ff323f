/** The text of a folder rule above or below the files. */
import { lazy, Suspense } from 'preact/compat'

const Markdown = lazy(() => import('../parts/markdown.tsx'))

export function Notes({ text }: { readonly text: string }) {
  if (text.trim() === '') return null
  // Clients of this API accept the address of a text instead of the text. Nothing is loaded from elsewhere, so it is a link.
  if (/^https?:\/\/\S+$/.test(text.trim())) {
    return (
      <p class="notes">
        <a href={text.trim()} target="_blank" rel="noopener noreferrer">
          {text.trim()}
        </a>
      </p>
    )
  }
  return (
    <section class="notes">
      <Suspense fallback={null}>
        <Markdown text={text} />
      </Suspense>
    </section>
  )
}
