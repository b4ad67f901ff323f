/** A page with a title, in the frame. */
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import './page.css'

const texts = textsOf('common')

interface PageProps {
  readonly title: string
  /** The language of the page, if it is not that of the console. */
  readonly lang?: string
  readonly children: ComponentChildren
}

export function Page({ title, lang, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} – ${texts.appName}`
  }, [title])
  return (
    <div class="page" lang={lang}>
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
