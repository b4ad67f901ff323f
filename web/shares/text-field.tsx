/** A field with a hint below it. */
import { useId } from 'preact/hooks'

interface TextFieldProps {
  readonly label: string
  readonly hint?: string
  readonly value: string
  readonly onValue: (value: string) => void
  /** 'number': 1 or more, or empty. */
  readonly type?: 'text' | 'number'
  readonly step?: 'any'
  /** The number of lines that a text of several lines is shown in. */
  readonly rows?: number
}

export function TextField({ label, hint, value, onValue, type = 'text', step, rows }: TextFieldProps) {
  const id = useId()
  const attributes = {
    value,
    autocomplete: 'off',
    'aria-describedby': hint === undefined ? undefined : id,
    onInput: ({ currentTarget }: { readonly currentTarget: { readonly value: string } }) =>
      onValue(currentTarget.value),
  } as const
  const least = step === undefined ? 1 : 0.001
  return (
    <div class="field">
      <label>
        {label}
        {rows === undefined ? (
          <input {...attributes} type={type} {...(type === 'number' && { min: least, step: step ?? 1 })} />
        ) : (
          <textarea {...attributes} rows={rows} />
        )}
      </label>
      {hint !== undefined && (
        <p id={id} class="muted">
          {hint}
        </p>
      )}
    </div>
  )
}
