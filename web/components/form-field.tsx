/** A field of a form that the API describes: settings, and the fields of storages. */
import { useEffect, useId } from 'preact/hooks'
import type { components } from '../api/schema.ts'
import './form-field.css'

export interface FieldDescription {
  readonly name: string
  readonly type: components['schemas']['DriverField']['type']
  /** Comma-separated choices of a `select`. */
  readonly options: string
  readonly required?: boolean
  readonly help: string
  readonly placeholder?: string
}

interface FormFieldProps {
  readonly field: FieldDescription
  /** The name of the field for people. Absent: made of that of the server, in English. */
  readonly label?: string | undefined
  /** A text, whatever the type. */
  readonly value: string
  readonly onValue: (value: string) => void
  /** Whether the user has come for this field: it gets the focus. */
  readonly isWanted?: boolean
}

export function FormField(props: FormFieldProps) {
  const { field, label, isWanted = false } = props
  const id = useId()
  useEffect(() => {
    if (!isWanted) return
    const control = document.getElementById(id)
    control?.focus()
    control?.scrollIntoView({ block: 'center' })
  }, [isWanted])
  const help = field.help === '' ? undefined : `${id}-help`
  return (
    <div class={field.type === 'bool' ? 'field check' : 'field'}>
      {field.type === 'bool' && <Control {...props} id={id} help={help} />}
      <label for={id} lang={label === undefined ? 'en' : undefined}>
        {label ?? labelOf(field.name)}
      </label>
      {field.type !== 'bool' && <Control {...props} id={id} help={help} />}
      {help !== undefined && (
        <p id={help} class="muted" lang="en">
          {field.help}
        </p>
      )}
    </div>
  )
}

type ControlProps = FormFieldProps & { readonly id: string; readonly help: string | undefined }

function Control({ field, value, onValue, id, help }: ControlProps) {
  const attributes = { id, required: field.required === true, 'aria-describedby': help }
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
              {choice}
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
          type={field.type === 'string' ? 'text' : 'number'}
          step={field.type === 'float' ? 'any' : undefined}
          autocomplete="off"
          placeholder={field.placeholder}
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )
  }
}

/** Choices that the API lists for the sake of other clients, and that the server refuses. */
const refusedChoices: Readonly<Record<string, readonly string[]>> = { search_index: ['bleve', 'meilisearch'] }

/** The choices of the field, with the present value if it is none of them. */
function choicesOf({ name, options }: FieldDescription, value: string): readonly string[] {
  const choices = options.split(',').filter((choice) => refusedChoices[name]?.includes(choice) !== true)
  return choices.includes(value) ? choices : [value, ...choices]
}

/** `root_folder_path` as `Root folder path`. */
function labelOf(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
