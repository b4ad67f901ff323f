/** Chooses some of many by their names. A field finds those of a part of the name, if there are more than a few. */
import { useState } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import { Check } from './check.tsx'
import './choice-list.css'

const texts = textsOf('common')

interface ChoiceListProps {
  readonly legend: string
  readonly options: readonly { readonly id: number; readonly name: string }[]
  /** The ids of those that are chosen. */
  readonly chosen: readonly number[]
  readonly onChosen: (ids: readonly number[]) => void
}

/** Options that need no field to be found. */
const few = 8
/** Options that are shown at once. */
const mostShown = 100

export function ChoiceList({ legend, options, chosen, onChosen }: ChoiceListProps) {
  const [filter, setFilter] = useState('')
  // What is chosen at first comes first, and stays there whatever is chosen then.
  const [first] = useState(() => new Set(chosen))
  const ordered = [...options.filter(({ id }) => first.has(id)), ...options.filter(({ id }) => !first.has(id))]
  const part = filter.trim().toLowerCase()
  const found = ordered.filter(({ name }) => name.toLowerCase().includes(part))
  const more = found.length - mostShown
  return (
    <fieldset>
      <legend>{legend}</legend>
      {options.length > few && (
        <>
          <input
            type="text"
            autocomplete="off"
            aria-label={texts.filter(legend)}
            placeholder={texts.filter(legend)}
            value={filter}
            onInput={({ currentTarget }) => setFilter(currentTarget.value)}
            onKeyDown={(event) => {
              // Enter would submit the form.
              if (event.key === 'Enter') event.preventDefault()
            }}
          />
          <p role="status" class="muted">
            {texts.chosen(chosen.length)}
          </p>
        </>
      )}
      <div class="choices">
        {found.slice(0, mostShown).map(({ id, name }) => (
          <Check
            key={id}
            text={name}
            checked={chosen.includes(id)}
            onChecked={(checked) => onChosen(checked ? [...chosen, id] : chosen.filter((other) => other !== id))}
          />
        ))}
      </div>
      {more > 0 && <p class="muted">{texts.moreToFind(more)}</p>}
    </fieldset>
  )
}
