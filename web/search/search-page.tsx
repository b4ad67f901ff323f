/** The results of a search in the index. */
import { useInfiniteQuery } from '@tanstack/preact-query'
import { Link, useSearch } from 'wouter-preact'
import { ApiError, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { EntryIcon } from '../entries/entry-icon.tsx'
import { Failure } from '../components/failure.tsx'
import { formatSize } from '../texts/format.ts'
import { Page } from '../components/page.tsx'
import { addressOf, fromTree, joined } from '../components/places.ts'
import { isAdmin, type Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'search')

type Found = Data<'/api/fs/search'>['content'][number]

const pageLength = 100

export default function SearchPage({ me }: { readonly me: Me }) {
  const words = new URLSearchParams(useSearch()).get('words') ?? ''
  const { data, error, isFetching, hasNextPage, fetchNextPage, refetch } = useInfiniteQuery({
    queryKey: keys.search(words),
    queryFn: ({ pageParam, signal }) =>
      post(
        '/api/fs/search',
        { parent: '/', keywords: words, scope: 0, page: pageParam, per_page: pageLength },
        { signal },
      ),
    initialPageParam: 1,
    getNextPageParam: (last, _, page) => (last.content.length < pageLength ? undefined : page + 1),
  })
  const found = data?.pages.flatMap(({ content }) => content) ?? []
  return (
    <Page title={texts.search.title(words)}>
      {isOff(error) && (
        <p>{isAdmin(me) ? <Link href="/@manage/index">{texts.search.turnOn}</Link> : texts.search.off}</p>
      )}
      {error && !isOff(error) && <Failure error={error} onRetry={() => void refetch()} />}
      {data && <p role="status">{texts.search.count(data.pages[0]?.total ?? 0)}</p>}
      <ul class="list">
        {found.map((entry) => (
          <FoundEntry key={joined(entry.parent, entry.name)} entry={entry} me={me} />
        ))}
      </ul>
      {hasNextPage && (
        <button type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
          {texts.more}
        </button>
      )}
    </Page>
  )
}

function isOff(error: unknown): boolean {
  return error instanceof ApiError && error.error === 'search_off'
}

/** The API reports parents in the whole tree. */
function FoundEntry({ entry, me }: { readonly entry: Found; readonly me: Me }) {
  const parent = fromTree(me, entry.parent)
  return (
    <li>
      <EntryIcon entry={entry} />
      <Link href={addressOf(joined(parent, entry.name))}>{entry.name}</Link>
      <Link class="muted" href={addressOf(parent)}>
        {parent}
      </Link>
      {!entry.is_dir && <span class="muted">{formatSize(entry.size)}</span>}
    </li>
  )
}
