/** A field for the day at whose end something ends. */
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

interface EndFieldProps {
  readonly label: string
  /** The end in RFC 3339 format; null: never. Another time of the day stays until the day is edited. */
  readonly time: string | null
  readonly onTime: (time: string | null) => void
}

export function EndField({ label, time, onTime }: EndFieldProps) {
  return (
    <label>
      {label}
      <input
        type="date"
        max="9999-12-31"
        title={texts.endHint}
        value={time === null ? '' : dayOf(new Date(time))}
        onInput={({ currentTarget }) => onTime(endOf(currentTarget.value))}
      />
    </label>
  )
}

/** The day where the browser is, as fields have it. */
function dayOf(time: Date): string {
  return new Date(+time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 10)
}

/** The end of the day where the browser is; null for no day. */
function endOf(day: string): string | null {
  const time = new Date(`${day}T23:59:59`)
  return Number.isNaN(+time) ? null : time.toISOString()
}
