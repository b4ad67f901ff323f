/** Who did what to a file or folder, when, and for administrators from where. */
import { useInfiniteQuery } from '@tanstack/preact-query'
import { post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { actorText, kindText, originText } from '../components/event-text.ts'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { formatSize, formatTime } from '../texts/format.ts'
import { nameOf } from '../components/places.ts'
import { Table } from '../components/table.tsx'
import { folderPasswords } from '../session/folder-passwords.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'events')

type HistoryEvent = Data<'/api/fs/history'>['content'][number]

export function HistoryDialog({ path, onClose }: { readonly path: string; readonly onClose: () => void }) {
  const { data, error, isFetching, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: keys.history(path),
    queryFn: ({ pageParam, signal }) =>
      post('/api/fs/history', { path, password: folderPasswords.of(path), cursor: pageParam }, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ next }) => next ?? undefined,
  })
  const { events } = texts
  const title = events.historyOf(nameOf(path))
  const rows = data?.pages.flatMap(({ content }) => content) ?? []
  return (
    <Dialog title={title} wide onClose={onClose}>
      {error && <Failure error={error} />}
      {!data && !error && <p class="loading skeleton">{texts.loading}</p>}
      {data && rows.length === 0 && !hasNextPage && <p>{events.historyNone}</p>}
      {rows.length > 0 && (
        <Table
          caption={title}
          rows={rows}
          keyOf={({ id }) => id}
          columns={{
            [events.when]: ({ time }) => formatTime(time),
            [events.who]: ({ user }) => actorText(user),
            [events.what]: whatOf,
            [events.fields.address]: originText,
          }}
        />
      )}
      {hasNextPage && (
        <button type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
          {texts.more}
        </button>
      )}
    </Dialog>
  )
}

/** `replaced a file, 5 kilobytes`, with both paths of a move or copy. */
function whatOf({ kind, size, path, target }: HistoryEvent): string {
  const paths = target === null ? '' : [path, target].filter(Boolean).join(' → ')
  return texts.facts([kindText(kind), size !== null && formatSize(size), paths])
}
