/** The documentation of this version: the Markdown files of docs/. */
import { useQuery } from '@tanstack/preact-query'
import { keys } from '../api/keys.ts'
import { Failure } from '../components/failure.tsx'
import { NoSuchPage, Page } from '../components/page.tsx'
import Markdown from '../viewers/markdown.tsx'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

const folder = '/docs/'

/** `name`: the path of the file below docs/, without its extension. */
export default function ManualPage({ name }: { readonly name: string }) {
  const { data: text, error } = useQuery({
    queryKey: keys.manual(name),
    queryFn: () => load(name),
    staleTime: Infinity,
  })
  if (error) return <Failure error={error} />
  if (text === undefined) return <p class="loading skeleton">{texts.loading}</p>
  if (text === null) return <NoSuchPage />
  return (
    <Page title={/^# (.*)$/m.exec(text)?.[1] ?? name} lang="en">
      <Markdown text={text.replace(/^# .*$/m, '')} path={folder + name.replace(/[^/]*$/, '')} pageFor={pageFor} />
    </Page>
  )
}

/** The text of the page; null: there is none. */
async function load(name: string): Promise<string | null> {
  try {
    const page = (await import(`../../docs/${name}.md`)) as { readonly default: string }
    return page.default
  } catch (error) {
    // esbuild has made a part of each file of docs/, and rejects any other name.
    // eslint-disable-next-line no-restricted-syntax -- this error is not of the API, and has no name
    if (error instanceof Error && error.message.startsWith('Module not found in bundle')) return null
    throw error
  }
}

function pageFor(target: string): string | undefined {
  return target.startsWith(folder) && target.endsWith('.md') ? `/@manual/${target.slice(folder.length, -3)}` : undefined
}
