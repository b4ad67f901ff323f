/** The storages: their state, and the forms that create and change them. */
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
import { StorageForm } from './storage-form.tsx'
import { StorageStatus } from './storage-status.tsx'
import type { Storage } from './storage-values.ts'

const texts = textsOf('common', 'files', 'admin')

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
            [storages.status]: (storage) => <StorageStatus storage={storage} />,
            // A setting hides it, and some backends do not tell.
            ...(data.content.some(({ mount_details: space }) => space) && { [storages.space]: spaceOf }),
            ...(data.content.some(({ order }) => order !== 0) && { [storages.order]: ({ order }: Storage) => order }),
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
