/** The fields of a storage: which there are, and their values as a form has them and as the API has them. */
import type { Data } from '../api/client.ts'
import { textsOf } from '../texts/texts.ts'
import type { FieldTexts } from './driver-texts.ts'

const texts = textsOf('admin')

export type Storage = Data<'/api/admin/storage/list'>['content'][number]
export type Forms = Data<'/api/admin/driver/list'>
export type Form = Forms[string]
export type Field = Form['common'][number] & { readonly placeholder?: string }
/** By the names of the fields. */
export type Values = Readonly<Record<string, string>>

/** The form of the driver. The root of a local storage has no default here: the server refuses `/`. */
export function formOf(forms: Forms | undefined, driver: string): Form | undefined {
  const form = forms?.[driver]
  if (!form || driver !== 'Local') return form
  const root = { default: '', required: true, placeholder: texts.storages.rootHint }
  const additional = form.additional.map((field) => (field.name === 'root_folder_path' ? { ...field, ...root } : field))
  return { ...form, additional }
}

/** In the order of the texts, then those without a text. */
export function inOrder(fields: readonly Field[], of: FieldTexts): readonly Field[] {
  const names = Object.keys(of)
  const place = ({ name }: Field) => (Object.hasOwn(of, name) ? names.indexOf(name) : names.length)
  return fields.toSorted((one, other) => place(one) - place(other))
}

/** Whether a trial would use up none of the values. */
export function canBeTried(form: Form, values: Values): boolean {
  return form.additional.every(({ name, single_use: isSingleUse }) => !isSingleUse || (values[name] ?? '') === '')
}

/** The fields of the storage and of its driver, as texts. */
export function valuesOf(storage: Storage): Values {
  const addition = JSON.parse(storage.addition || '{}') as Record<string, unknown>
  const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
  return Object.fromEntries(Object.entries({ ...storage, ...addition }).map(([name, value]) => [name, textOf(value)]))
}

export function rowOf(driver: string, form: Form, values: Values): Storage {
  const common = Object.fromEntries(form.common.map((field) => [field.name, typed(field, values)]))
  const addition = Object.fromEntries(form.additional.map((field) => [field.name, typed(field, values)]))
  // Every field of the form has the type that the API says, which the compiler cannot know.
  return { ...common, driver, addition: JSON.stringify(addition) } as unknown as Storage
}

/** The value of a field in the type that the API expects. */
function typed({ name, type, default: fallback }: Field, values: Values): string | number | boolean {
  const value = values[name] ?? fallback
  if (type === 'bool') return value === 'true'
  return type === 'number' || type === 'float' ? Number(value) : value
}
