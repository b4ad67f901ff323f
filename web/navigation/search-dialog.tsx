/**
 * Finds files, folders, pages, settings and commands by words (ARIA Authoring Practices, combobox pattern with a list
 * box).
 */
import { Search } from 'lucide-preact'
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { EntryIcon } from '../entries/entry-icon.tsx'
import type { Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { useResults, type Result } from './results.ts'
import './search-dialog.css'

const texts = textsOf('common', 'navigation')

interface SearchDialogProps {
  readonly me: Me
  readonly onSignOut: () => void
  readonly onClose: () => void
}

export default function SearchDialog({ me, onSignOut, onClose }: SearchDialogProps) {
  const [, navigate] = useLocation()
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  const [words, setWords] = useState('')
  const [chosen, setChosen] = useState<string>()
  const { groups, isSearching } = useResults(me, words, onSignOut)
  const results = groups.flatMap((group) => group.results)
  // The chosen one stays while others come. It may have gone.
  const index = Math.max(
    0,
    results.findIndex((result) => result.id === chosen),
  )
  const active = results[index]
  // Before the next key is pressed, which is typed into it.
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    return () => element?.close()
  }, [])
  const idOf = (result: Result) => `${id}-${results.indexOf(result)}`
  useEffect(() => {
    document.getElementById(`${id}-${index}`)?.scrollIntoView({ block: 'nearest' })
  }, [index, active?.id])

  function choose({ target }: Result): void {
    // Closed at once, so that the focus is where it was before anything opens.
    dialog.current?.close()
    onClose()
    if (typeof target === 'string') navigate(target)
    else target()
  }

  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) setChosen(results[(index + step + results.length) % results.length]?.id)
    else if (event.key === 'Enter' && active && !event.isComposing) choose(active)
    else return
    event.preventDefault()
  }

  return (
    <dialog
      ref={dialog}
      class="search-dialog"
      aria-label={texts.nav.search}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={({ target }) => target === dialog.current && onClose()}
    >
      <div class="search-head">
        <Search aria-hidden size={18} />
        <input
          type="text"
          role="combobox"
          aria-label={texts.nav.search}
          aria-autocomplete="list"
          aria-expanded={results.length > 0}
          aria-controls={`${id}-results`}
          aria-activedescendant={active && idOf(active)}
          placeholder={texts.navigation.placeholder}
          autocomplete="off"
          spellcheck={false}
          enterkeyhint="go"
          autofocus
          value={words}
          onInput={({ currentTarget: { value } }) => {
            setWords(value)
            setChosen(undefined)
          }}
          onKeyDown={onKeyDown}
        />
        <button type="button" class="quiet" onClick={onClose}>
          {texts.close}
        </button>
      </div>
      <div id={`${id}-results`} class="results" role="listbox" aria-label={texts.navigation.results}>
        {groups.map((group) => (
          <div key={group.name} role="group" aria-label={group.name}>
            <p class="results-title" aria-hidden>
              {group.name}
            </p>
            {group.results.map((result) => (
              <div
                key={result.id}
                id={idOf(result)}
                role="option"
                class="result"
                aria-selected={result === active}
                onPointerMove={() => setChosen(result.id)}
                onClick={() => choose(result)}
              >
                {result.entry && <EntryIcon entry={result.entry} size={18} />}
                {result.Icon && <result.Icon aria-hidden size={18} />}
                <span class="name">{result.name}</span>
                {result.detail !== undefined && <span class="name muted result-detail">{result.detail}</span>}
              </div>
            ))}
          </div>
        ))}
      </div>
      <p role="status" class={results.length > 0 ? 'for-screen-readers' : 'results-status'}>
        {isSearching ? texts.loading : texts.navigation.count(results.length)}
      </p>
    </dialog>
  )
}
