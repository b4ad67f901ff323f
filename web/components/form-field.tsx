/** A field of a form that the API describes: settings, and the fields of storages. */
import { useEffect, useId } from 'preact/hooks'
import type { components } from '../api/schema.ts'
import { textFor, textsOf } from '../texts/texts.ts'
import './form-field.css'

const texts = textsOf('choices')

export interface FieldDescription {
  readonly name: string
  readonly type: components['schemas']['DriverField']['type']
  /** Comma-separated choices of a `select`. */
  readonly options: string
  readonly required?: boolean
  readonly help: string
  readonly placeholder?: string
  /** Whether the value is a password, key or token. */
  readonly secret?: boolean
}

interface FormFieldProps {
  readonly field: FieldDescription
  /** The name of the field for people. Absent: made of that of the server, in English. */
  readonly label?: string | undefined
  /** What the field is, and where its value is found. Absent: what the server says, in English. */
  readonly help?: string | undefined
  /** Whether the name that the server has for the field is shown too, for those who know it. */
  readonly showsName?: boolean
  /** A text, whatever the type. */
  readonly value: string
  readonly onValue: (value: string) => void
  /** Whether the user has come for this field: it gets the focus. */
  readonly isWanted?: boolean
}

export function FormField(props: FormFieldProps) {
  const { field, label, help: text = field.help, isWanted = false, showsName = false } = props
  const id = useId()
  useEffect(() => {
    if (!isWanted) return
    const control = document.getElementById(id)
    control?.focus()
    control?.scrollIntoView({ block: 'center' })
  }, [isWanted])
  const help = text === '' && !showsName ? undefined : `${id}-help`
  const isMarked = field.required === true && field.type !== 'bool'
  return (
    <div class={field.type === 'bool' ? 'field check' : 'field'}>
      {field.type === 'bool' && <Control {...props} describedBy={help} id={id} />}
      <label for={id} lang={label === undefined ? 'en' : undefined}>
        <span>
          {label ?? labelOf(field.name)}
          {isMarked && <span aria-hidden> *</span>}
        </span>
      </label>
      {field.type !== 'bool' && <Control {...props} describedBy={help} id={id} />}
      {help !== undefined && (
        <p id={help} class="muted" lang={props.help === undefined ? 'en' : undefined}>
          {text} {showsName && <code>{field.name}</code>}
        </p>
      )}
    </div>
  )
}

type ControlProps = FormFieldProps & { readonly id: string; readonly describedBy: string | undefined }

function Control({ field, value, onValue, id, describedBy }: ControlProps) {
  const attributes = { id, required: field.required === true, 'aria-describedby': describedBy }
  switch (field.type) {
    case 'bool':
      return (
        <input
          {...attributes}
          required={false}
          type="checkbox"
          checked={value === 'true'}
          onChange={(event) => onValue(String(event.currentTarget.checked))}
        />
      )
    case 'select':
      return (
        <select {...attributes} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
          {choicesOf(field, value).map((choice) => (
            <option key={choice} value={choice}>
              {choiceText(field.name, choice) ?? choice}
            </option>
          ))}
        </select>
      )
    case 'text':
      return <textarea {...attributes} rows={3} value={value} onInput={(event) => onValue(event.currentTarget.value)} />
    case 'string':
    case 'number':
    case 'float':
      return (
        <input
          {...attributes}
          type={inputType(field)}
          step={field.type === 'float' ? 'any' : undefined}
          // Browsers would offer the user's own password.
          autocomplete={field.secret === true ? 'new-password' : 'off'}
          placeholder={field.placeholder}
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )
  }
}

function inputType({ type, secret }: FieldDescription): string {
  if (type !== 'string') return 'number'
  return secret === true ? 'password' : 'text'
}

function choiceText(field: string, choice: string): string | undefined {
  const ofFields: Readonly<Record<string, Readonly<Record<string, string>>>> = texts.choices
  return Object.hasOwn(ofFields, field) ? textFor(choice, ofFields[field] ?? {}) : undefined
}

/** Choices that the API lists for other clients: the server refuses them, or they are the same as another one. */
const hiddenChoices: Readonly<Record<string, readonly string[]>> = {
  search_index: ['bleve', 'meilisearch', 'database_non_full_text'],
  sso_login_platform: ['Dingtalk'],
}

/** The choices of the field, with the present value if it is none of them. */
function choicesOf({ name, options }: FieldDescription, value: string): readonly string[] {
  const choices = options.split(',').filter((choice) => hiddenChoices[name]?.includes(choice) !== true)
  return choices.includes(value) ? choices : [value, ...choices]
}

/** `root_folder_path` as `Root folder path`. */
function labelOf(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
