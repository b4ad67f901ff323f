/** A page with a title, in the frame. */
import { FileQuestionMark } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { textsOf } from '../texts/texts.ts'
import { Empty } from './empty.tsx'
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

/** `hint`: what the user can do to see it. */
export function NoSuchPage({ hint }: { readonly hint?: string }) {
  return (
    <Page title={texts.notFoundTitle}>
      <Empty Icon={FileQuestionMark} text={texts.notFound}>
        {hint !== undefined && <p class="muted">{hint}</p>}
        <Link href="/" class="button primary">
          {texts.toFiles}
        </Link>
      </Empty>
    </Page>
  )
}
