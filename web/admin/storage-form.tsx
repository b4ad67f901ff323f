/** The form of a storage: the fields that the API says its driver has, in words, and a trial before they are saved. */
import { Fragment } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { ApiError, get, isSignedOut, isUnreachable, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { noteEndOfSession } from '../api/queries.ts'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { report } from '../components/notices.tsx'
import { basePath } from '../components/places.ts'
import { change, changed, useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import { driverPage, driverText, faultText, storageFieldTexts, type FieldTexts } from './driver-texts.ts'
import { QrSignIn } from './qr-sign-in.tsx'
import { StorageField } from './storage-field.tsx'
import { canBeTried, formOf, inOrder, rowOf, valuesOf, type Field, type Form, type Storage } from './storage-values.ts'
import type { Values } from './storage-values.ts'

const texts = textsOf('common', 'admin')

interface StorageFormProps {
  /** The storage to edit. Absent: a new one. */
  readonly storage?: Storage | undefined
  readonly onClose: () => void
}

/** What came of a trial. It counts until a value is changed. */
interface Trial {
  readonly values: Values
  readonly state: 'running' | 'works' | 'failed'
  /** Why it failed, if it is to be shown. */
  readonly fault?: string
}

export function StorageForm({ storage: opened, onClose }: StorageFormProps) {
  const { data: forms, error } = useRows(keys.drivers, () => get('/api/admin/driver/list'))
  const [storage, setStorage] = useState(opened)
  const [driver, setDriver] = useState(storage?.driver ?? 'Local')
  const [values, setValues] = useState<Values>(() => (storage ? valuesOf(storage) : {}))
  const [lastTrial, setTrial] = useState<Trial>()
  const body = useRef<HTMLDivElement>(null)
  const form = formOf(forms, driver)
  const trial = lastTrial?.values === values ? lastTrial : undefined
  const isTriable = form !== undefined && canBeTried(form, values)
  const { storages } = texts
  const tryOut = (form: Form) =>
    post('/api/admin/storage/try', { ...rowOf(driver, form, values), ...(storage && { id: storage.id }) })

  async function test(form: Form): Promise<void> {
    if (body.current?.closest('form')?.reportValidity() !== true) return
    setTrial({ values, state: 'running' })
    try {
      await tryOut(form)
      setTrial({ values, state: 'works' })
    } catch (error) {
      noteEndOfSession(error)
      setTrial({ values, state: 'failed', fault: faultText(error) })
    }
  }
  /** Rejects with the reason if the storage would not start. Saving it again then saves it nevertheless. */
  async function testFirst(form: Form): Promise<void> {
    const isDecided = trial !== undefined && trial.state !== 'running'
    if (isDecided || !isTriable || storage?.disabled === true) return
    setTrial({ values, state: 'running' })
    try {
      await tryOut(form)
      setTrial({ values, state: 'works' })
    } catch (error) {
      setTrial(undefined)
      if (!(error instanceof ApiError) || isUnreachable(error) || isSignedOut(error)) throw error
      setTrial({ values, state: 'failed' })
      throw new Error(faultText(error), { cause: error })
    }
  }
  async function save(form: Form): Promise<void> {
    await testFirst(form)
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
  const fieldsOf = (fields: readonly Field[], texts: FieldTexts, isBasic: boolean) =>
    inOrder(fields, texts)
      .filter((each) => each.basic === isBasic)
      .map((each) => (
        <Fragment key={each.name}>
          <StorageField
            field={each}
            text={Object.hasOwn(texts, each.name) ? texts[each.name] : undefined}
            value={values[each.name] ?? each.default}
            onValue={(value) => setValues((before) => ({ ...before, [each.name]: value }))}
          />
          {form?.qr_sign_in === each.name && (
            <QrSignIn
              key={driver}
              driver={driver}
              addition={rowOf(driver, form, values).addition}
              onValues={(set) => setValues((before) => ({ ...before, ...set }))}
            />
          )}
        </Fragment>
      ))
  const ofStorage = storageFieldTexts()
  const ofDriver = driverText(driver)?.fields ?? {}
  return (
    <Dialog
      title={storage ? storages.editTitle(storage.mount_path) : storages.add}
      action={trial?.state === 'failed' ? storages.saveAnyway : texts.save}
      otherActions={[
        ...(form && isTriable ? [{ name: storages.test, onChoose: () => void test(form) }] : []),
        // One that was added here, but does not start.
        ...(storage && !opened ? [{ name: storages.deleteTitle, onChoose: () => void remove(storage) }] : []),
      ]}
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
          onChange={(event) => {
            setDriver(event.currentTarget.value)
            setTrial(undefined)
          }}
        >
          {Object.keys(forms ?? {}).map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <About driver={driver} />
      {form && (
        <div class="form" ref={body}>
          {form.config.alert !== '' && (
            <p class="notice" lang="en">
              {form.config.alert.replace(/^\w+\|/, '')}
            </p>
          )}
          <p class="muted">{storages.required}</p>
          {fieldsOf(form.common, ofStorage, true)}
          {fieldsOf(form.additional, ofDriver, true)}
          <details onInvalidCapture={(event) => (event.currentTarget.open = true)}>
            <summary>{storages.more}</summary>
            <div class="form">
              {fieldsOf(form.additional, ofDriver, false)}
              {fieldsOf(form.common, ofStorage, false)}
            </div>
          </details>
          {!isTriable && <p class="notice">{storages.triedWhenSaved}</p>}
        </div>
      )}
      <div role="status">
        {trial?.state === 'running' && storages.trying}
        {trial?.state === 'works' && storages.tried}
      </div>
      {trial?.fault !== undefined && (
        <p role="alert" class="error">
          {trial.fault}
        </p>
      )}
    </Dialog>
  )
}

/** What the driver connects, and its page of the documentation, which is opened beside the form. */
function About({ driver }: { readonly driver: string }) {
  const about = driverText(driver)?.about
  const page = driverPage(driver)
  if (about === undefined || page === undefined) return null
  return (
    <p>
      {about}{' '}
      <a href={`${basePath}/@manual/${page}`} target="_blank" rel="noopener">
        {texts.storages.driverManual(driver)}
      </a>
    </p>
  )
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
