/** The form of a storage, drawn from what the API says of its driver. */
import { useState } from 'preact/hooks'
import { ApiError, get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { FormField } from '../components/form-field.tsx'
import { report } from '../components/notices.tsx'
import { change, changed, useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import type { Storage } from './storages-page.tsx'

const texts = textsOf('common', 'admin')

type Forms = Data<'/api/admin/driver/list'>
type Form = Forms[string]
type Field = Form['common'][number] & { readonly placeholder?: string }
type Values = Readonly<Record<string, string>>

interface StorageFormProps {
  /** The storage to edit. Absent: a new one. */
  readonly storage?: Storage | undefined
  readonly onClose: () => void
}

export function StorageForm({ storage: opened, onClose }: StorageFormProps) {
  const { data: forms, error } = useRows(keys.drivers, () => get('/api/admin/driver/list'))
  const [storage, setStorage] = useState(opened)
  const [driver, setDriver] = useState(storage?.driver ?? 'Local')
  const [values, setValues] = useState<Values>(() => (storage ? valuesOf(storage) : {}))
  const form = formOf(forms, driver)
  const { storages } = texts
  async function save(form: Form): Promise<void> {
    const row = rowOf(driver, form, values)
    try {
      if (storage) await post('/api/admin/storage/update', { ...row, id: storage.id, disabled: storage.disabled })
      else await post('/api/admin/storage/create', row)
      report(storages.saved)
    } catch (error) {
      // A storage that does not start is stored nevertheless: the form goes on with it.
      if (!storage && isCreated(error)) setStorage(await storageAt(row.mount_path))
      throw error
    } finally {
      await changed(keys.storages)
    }
  }
  async function remove({ id }: Storage): Promise<void> {
    await change(keys.storages, post('/api/admin/storage/delete', undefined, { query: { id } }))
    onClose()
  }
  const field = (each: Field) => (
    <FormField
      key={each.name}
      field={each}
      value={values[each.name] ?? each.default}
      onValue={(value) => setValues((before) => ({ ...before, [each.name]: value }))}
    />
  )
  return (
    <Dialog
      title={storage ? storages.editTitle(storage.mount_path) : storages.add}
      action={texts.save}
      // One that was added here, but does not start.
      otherActions={storage && !opened ? [{ name: storages.deleteTitle, onChoose: () => void remove(storage) }] : []}
      wide
      disabled={form === undefined}
      onClose={onClose}
      onConfirm={() => form && save(form)}
    >
      {error && <Failure error={error} />}
      <label>
        {storages.driver}
        <select
          value={driver}
          disabled={storage !== undefined}
          onChange={(event) => setDriver(event.currentTarget.value)}
        >
          {Object.keys(forms ?? {}).map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {form && (
        <>
          {form.config.alert !== '' && <p class="notice">{form.config.alert.replace(/^\w+\|/, '')}</p>}
          {form.common.filter(({ name }) => name === 'mount_path').map(field)}
          {form.additional.map(field)}
          <details>
            <summary>{storages.more}</summary>
            <div class="form">{form.common.filter(({ name }) => name !== 'mount_path').map(field)}</div>
          </details>
        </>
      )}
    </Dialog>
  )
}

/** The form of the driver. The root of a local storage has no default here: the server refuses `/`. */
function formOf(forms: Forms | undefined, driver: string): Form | undefined {
  const form = forms?.[driver]
  if (!form || driver !== 'Local') return form
  const root = { default: '', required: true, placeholder: texts.storages.rootHint }
  const additional = form.additional.map((field) => (field.name === 'root_folder_path' ? { ...field, ...root } : field))
  return { ...form, additional }
}

/** The fields of the storage and of its driver, as texts. */
function valuesOf(storage: Storage): Values {
  const addition = JSON.parse(storage.addition || '{}') as Record<string, unknown>
  const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
  return Object.fromEntries(Object.entries({ ...storage, ...addition }).map(([name, value]) => [name, textOf(value)]))
}

function rowOf(driver: string, form: Form, values: Values): Storage {
  const common = Object.fromEntries(form.common.map((field) => [field.name, typed(field, values)]))
  const addition = Object.fromEntries(form.additional.map((field) => [field.name, typed(field, values)]))
  // Every field of the form has the type that the API says, which the compiler cannot know.
  return { ...common, driver, addition: JSON.stringify(addition) } as unknown as Storage
}

/** Whether the storage was added although the call failed. */
function isCreated(error: unknown): boolean {
  return error instanceof ApiError && error.error === 'storage_created'
}

/** `path`: as it was entered. The server adds a slash before it, and removes others. */
async function storageAt(path: string): Promise<Storage | undefined> {
  const { content } = await get('/api/admin/storage/list')
  const names = (text: string) =>
    text
      .split('/')
      .filter((name) => name !== '')
      .join('/')
  return content.find(({ mount_path: other }) => names(other) === names(path))
}

/** The value of a field in the type that the API expects. */
function typed({ name, type, default: fallback }: Field, values: Values): string | number | boolean {
  const value = values[name] ?? fallback
  if (type === 'bool') return value === 'true'
  return type === 'number' || type === 'float' ? Number(value) : value
}
