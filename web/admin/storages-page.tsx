/** The storages: their state, and the forms that create and change them. */
import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { formatSize } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { Page } from '../components/page.tsx'
import { change, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import { faultText } from './driver-texts.ts'
import { StorageForm } from './storage-form.tsx'
import type { Storage } from './storage-values.ts'

const texts = textsOf('common', 'files', 'admin')

/** Milliseconds for which the answer of a backend is shown before it is asked again. */
const checkedFor = 60_000

export function StoragesPage() {
  const { data, error } = useRows(keys.storages, () => get('/api/admin/storage/list'))
  const [edited, setEdited] = useState<Storage | 'new'>()
  const [deleted, setDeleted] = useState<Storage>()
  const { storages } = texts
  return (
    <Page title={texts.pages.storages}>
      <button type="button" class="primary" onClick={() => setEdited('new')}>
        {storages.add}
      </button>
      {error && <Failure error={error} />}
      {data && (
        <Table
          caption={texts.pages.storages}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [storages.path]: ({ mount_path: path }) => path,
            [storages.driver]: ({ driver }) => driver,
            [storages.status]: (storage) => <Status storage={storage} />,
            // A setting hides it, and some backends do not tell.
            ...(data.content.some(({ mount_details: space }) => space) && { [storages.space]: spaceOf }),
            [storages.order]: ({ order }) => order,
          }}
          actions={(storage) => <StorageActions storage={storage} onEdit={setEdited} onDelete={setDeleted} />}
        />
      )}
      {edited !== undefined && (
        <StorageForm storage={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
      {deleted && (
        <DeleteDialog
          title={storages.deleteTitle}
          warning={storages.deleteWarning(deleted.mount_path)}
          onClose={() => setDeleted(undefined)}
          onDelete={() =>
            change(keys.storages, post('/api/admin/storage/delete', undefined, { query: { id: deleted.id } }))
          }
        />
      )}
    </Page>
  )
}

function spaceOf({ mount_details: space }: Storage) {
  return space && texts.storages.free(formatSize(space.free_space), formatSize(space.total_space))
}

/** What the backend says now, and until then what the server knows: it asks backends once in a while. */
function Status({ storage: { id, status, disabled, modified } }: { readonly storage: Storage }) {
  const { states } = texts.storages
  const { error, isSuccess } = useQuery({
    // A storage that was changed, or has started, is asked anew.
    queryKey: keys.storageCheck(id, modified, status),
    queryFn: ({ signal }) => get('/api/admin/storage/check', { query: { id }, signal }),
    enabled: !disabled,
    staleTime: checkedFor,
    refetchOnWindowFocus: false,
  })
  if (disabled) return <span class="muted">{states.disabled}</span>
  if (error) return <span class="error">{faultText(error)}</span>
  const warnings = /^work, but (.*)$/s.exec(status)?.[1]
  if (warnings !== undefined) {
    return (
      <span>
        {states.work} <span lang="en">({warnings})</span>
      </span>
    )
  }
  if (isSuccess || status === 'work') return <span>{states.work}</span>
  if (status === '') return <span class="muted">{states.starting}</span>
  return (
    <span class="error" lang="en">
      {status}
    </span>
  )
}

interface StorageActionsProps {
  readonly storage: Storage
  readonly onEdit: (storage: Storage) => void
  readonly onDelete: (storage: Storage) => void
}

function StorageActions({ storage, onEdit, onDelete }: StorageActionsProps) {
  const { id, disabled, mount_path: path } = storage
  const { storages } = texts
  const verb = disabled ? 'enable' : 'disable'
  const query = { id }
  const switched = () => change(keys.storages, post(`/api/admin/storage/${verb}`, undefined, { query }))
  const tested = () => change(keys.storageCheck(id), get('/api/admin/storage/check', { query }), storages.tested(path))
  const button = (text: string, onClick: () => void) => <NamedButton text={text} of={path} onClick={onClick} />
  return (
    <>
      {!disabled && button(storages.test, () => void tested())}
      {button(storages[verb], () => void switched())}
      {button(storages.edit, () => onEdit(storage))}
      <NamedButton deletes text={texts.files.remove} of={path} onClick={() => onDelete(storage)} />
    </>
  )
}
