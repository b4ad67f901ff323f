/** A page with a title, in the frame. */
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

export function Page({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} – ${texts.appName}`
  }, [title])
  return (
    <div class="page">
      <h1>{title}</h1>
      {children}
    </div>
  )
}

export function NoSuchPage() {
  return (
    <Page title={texts.notFoundTitle}>
      <p>{texts.notFound}</p>
    </Page>
  )
}
