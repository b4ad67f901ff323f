/** The field for a one-time code, or a recovery code. */
import { useEffect, useId, useState } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('session')

interface CodeFieldProps {
  readonly value: string
  readonly onValue: (value: string) => void
  /** Whether it gets the focus when it appears. */
  readonly focused?: boolean
  /** The label; by default that of a sign-in. */
  readonly label?: string
}

export function CodeField({ value, onValue, focused = false, label = texts.session.code }: CodeFieldProps) {
  const [input, setInput] = useState<HTMLInputElement | null>(null)
  const hint = useId()
  useEffect(() => {
    if (focused) input?.focus()
  }, [focused, input])
  return (
    <div class="field">
      <label>
        {label}
        <input
          ref={setInput}
          autocapitalize="none"
          autocomplete="one-time-code"
          aria-describedby={hint}
          required
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      </label>
      <p id={hint} class="muted">
        {texts.session.codeHint}
      </p>
    </div>
  )
}
