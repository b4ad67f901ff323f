/** The shares of the user; for an administrator, those of all users. */
import { useInfiniteQuery } from '@tanstack/preact-query'
import { Share2 } from 'lucide-preact'
import { useRef, useState } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { ShareMode } from '../api/schema.ts'
import { copyText } from '../components/copy-text.ts'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { formatSize, formatTime } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { reporting } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { parentOf } from '../components/places.ts'
import { change, changed } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { isAdmin, type Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { LinkDialog } from './link-dialog.tsx'
import { ShareForm } from './share-form.tsx'
import { namesOf, sentShare, shareLink, type EditedShare, type Share } from './share.ts'

const texts = textsOf('common', 'files', 'shares')

const pageLength = 100

/** A dialog about one of the shares. */
interface OpenDialog {
  readonly kind: 'link' | 'edit' | 'delete'
  readonly share: Share
}

export default function SharesPage({ me }: { readonly me: Me }) {
  const { data, error, isFetching, hasNextPage, fetchNextPage, refetch } = useInfiniteQuery({
    queryKey: keys.shares,
    queryFn: ({ pageParam, signal }) => post('/api/share/list', { page: pageParam, per_page: pageLength }, { signal }),
    initialPageParam: 1,
    getNextPageParam: (last, _, page) => (last.content.length < pageLength ? undefined : page + 1),
  })
  const [dialog, setDialog] = useState<OpenDialog>()
  const { shares } = texts
  const rows = data?.pages.flatMap(({ content }) => content) ?? []
  const close = () => setDialog(undefined)
  return (
    <Page title={shares.title}>
      <p class="muted">{isAdmin(me) ? shares.aboutAll : shares.about}</p>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data && rows.length === 0 && (
        <Empty Icon={Share2} text={shares.none}>
          <Link href="/" class="button">
            {shares.goToFiles}
          </Link>
        </Empty>
      )}
      {rows.length > 0 && (
        <Table
          caption={shares.title}
          rows={rows}
          keyOf={({ id }) => id}
          columns={{
            [shares.files]: (share) => <Files share={share} />,
            [shares.link]: (share) => <ShownLink share={share} />,
            ...(isAdmin(me) && {
              [shares.creator]: ({ creator }: Share) => creator,
              [shares.pseudonym]: ({ pseudonym }: Share) => pseudonym,
            }),
            [shares.state]: ({ state }) => shares.states[state],
            [shares.visits]: ({ accessed, max_accessed: most }) => shares.visitsOf(accessed, most),
            [shares.ends]: ({ expires }) => (expires === null ? shares.never : formatTime(expires)),
          }}
          actions={(share) => (
            <>
              <RowButton text={shares.show} share={share} onClick={() => setDialog({ kind: 'link', share })} />
              <RowButton text={shares.edit} share={share} onClick={() => setDialog({ kind: 'edit', share })} />
              <RowButton
                text={share.disabled ? shares.enable : shares.disable}
                share={share}
                onClick={() => void change(keys.shares, setDisabled(share, !share.disabled))}
              />
              <RowButton
                deletes
                text={texts.files.remove}
                share={share}
                onClick={() => setDialog({ kind: 'delete', share })}
              />
            </>
          )}
        />
      )}
      {hasNextPage && (
        <button type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
          {texts.more}
        </button>
      )}
      {dialog?.kind === 'link' && <LinkDialog share={dialog.share} title={shares.link} onClose={close} />}
      {dialog?.kind === 'edit' && (
        <ShareForm
          me={me}
          title={shares.editTitle(namesOf(dialog.share.files))}
          action={texts.save}
          share={dialog.share}
          count={dialog.share.files.length}
          hasFiles={false}
          onClose={close}
          onSave={(edited) => save(dialog.share, edited)}
        />
      )}
      {dialog?.kind === 'delete' && (
        <DeleteDialog
          title={shares.deleteTitle}
          warning={shares.deleteWarning(namesOf(dialog.share.files))}
          onClose={close}
          onDelete={() => change(keys.shares, post('/api/share/delete', undefined, { query: { id: dialog.share.id } }))}
        />
      )}
    </Page>
  )
}

/** What is shared, and how: the full paths are in the title. */
function Files({ share }: { readonly share: Share }) {
  const { files, mode, remark, uploaded_files: count, uploaded_bytes: bytes } = share
  const folder = parentOf(files[0] ?? '/')
  const notes = [
    folder !== '/' && texts.shares.inFolder(folder),
    mode !== ShareMode.read && texts.shares.modes[mode],
    count > 0 && texts.shares.uploads(count, formatSize(bytes)),
    remark,
  ].filter(Boolean)
  return (
    <>
      <span title={files.join('\n')}>{namesOf(files)}</span>
      {notes.map((note) => (
        <div key={note} class="muted">
          {note}
        </div>
      ))}
    </>
  )
}

function ShownLink({ share }: { readonly share: Share }) {
  const shown = useRef<HTMLAnchorElement>(null)
  const { server, path } = shareLink(share)
  const link = server + path
  // The whole link can be selected, for browsers that copy nothing else.
  return (
    <span class="copyable">
      <a ref={shown} href={link} target="_blank" rel="noopener">
        <span class="for-screen-readers">{server}</span>
        {path}
      </a>
      <RowButton
        text={texts.copyText}
        share={share}
        onClick={() => void reporting(copyText(link, shown.current), texts.shares.linkCopied)}
      />
    </span>
  )
}

interface RowButtonProps {
  readonly text: string
  readonly share: Share
  readonly onClick: () => void
  readonly deletes?: boolean
}

/** Several shares may have the same files: the id tells them apart. */
function RowButton({ share, ...button }: RowButtonProps) {
  return <NamedButton {...button} of={`${namesOf(share.files)}, ${share.id}`} />
}

function setDisabled({ id }: Share, disabled: boolean): Promise<unknown> {
  return post(disabled ? '/api/share/disable' : '/api/share/enable', undefined, { query: { id } })
}

/** The fields that the form does not have are those that the share has now. Visits may begin meanwhile. */
async function save({ id }: Share, edited: EditedShare): Promise<void> {
  const { files, disabled, order_by, order_direction, extract_folder } = await get('/api/share/get', { query: { id } })
  const kept = { files, accessed: null, disabled, order_by, order_direction, extract_folder }
  await post('/api/share/update', { id, new_id: edited.id, ...kept, ...sentShare(edited) })
  await changed(keys.shares)
}
