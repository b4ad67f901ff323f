/** The grants of a user or a group: for each folder a preset, and the switches behind it. */
import { useQuery } from '@tanstack/preact-query'
import { useId, useState } from 'preact/hooks'
import { get } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Right } from '../api/schema.ts'
import { NamedButton } from '../components/named-button.tsx'
import { basePath } from '../components/places.ts'
import { exists, FolderField } from '../files/folder-field.tsx'
import { textsOf } from '../texts/texts.ts'
import { addressOfQuestion } from './explain-page.tsx'
import {
  choiceOf,
  newGrant,
  presetOf,
  presets,
  rights,
  withChoice,
  type Choice,
  type EditedGrant,
  type Preset,
} from './grants.ts'
import './grants-field.css'

const texts = textsOf('common', 'accounts')

interface GrantsFieldProps {
  readonly legend: string
  readonly grants: readonly EditedGrant[]
  readonly onGrants: (grants: readonly EditedGrant[]) => void
  /** The name of a user to whom the grants apply; undefined if there is nobody. */
  readonly username: string | undefined
  /** What there is to say of all of them. */
  readonly note: string | undefined
  /** For whom a grant at this path has no effect; undefined if there is nobody. */
  readonly noteOf: (path: string) => string | undefined
}

export function GrantsField({ legend, grants, onGrants, username, note, noteOf }: GrantsFieldProps) {
  const set = (changed: EditedGrant) => onGrants(grants.map((grant) => (grant.key === changed.key ? changed : grant)))
  return (
    <fieldset class="grants">
      <legend>{legend}</legend>
      <p class="muted">{texts.grants.about}</p>
      <div role="status">{note !== undefined && <p>{note}</p>}</div>
      {grants.map((grant) => (
        <GrantField
          key={grant.key}
          grant={grant}
          username={username}
          note={grant.path.startsWith('/') ? noteOf(grant.path) : undefined}
          onGrant={set}
          onRemove={() => onGrants(grants.filter(({ key }) => key !== grant.key))}
        />
      ))}
      <div>
        <button type="button" onClick={() => onGrants([...grants, newGrant()])}>
          {texts.grants.add}
        </button>
      </div>
      <LinksStay isDenied={grants.some(({ deny }) => deny.includes(Right.see) || deny.includes(Right.read))} />
    </fieldset>
  )
}

interface GrantFieldProps {
  readonly grant: EditedGrant
  readonly username: string | undefined
  readonly note: string | undefined
  readonly onGrant: (grant: EditedGrant) => void
  readonly onRemove: () => void
}

function GrantField({ grant, username, note, onGrant, onRemove }: GrantFieldProps) {
  const [isOpen, setOpen] = useState(false)
  const { grants } = texts
  const preset = presetOf(grant)
  const name = grants.of(grant.path)
  const hint = useId()
  const textsOf = (choice: Choice) =>
    rights.filter((right) => choiceOf(grant, right) === choice).map((right) => grants.rightTexts[right])
  return (
    <fieldset>
      <legend>{name}</legend>
      <FolderField label={grants.path} path={grant.path} onPath={(path) => onGrant({ ...grant, path })} />
      <label>
        {grants.rights}
        <select
          value={preset ?? 'custom'}
          aria-describedby={hint}
          onChange={({ currentTarget }) => onGrant({ ...grant, ...presets[currentTarget.value as Preset] })}
        >
          {(Object.keys(presets) as Preset[]).map((each) => (
            <option key={each} value={each}>
              {grants.presets[each]}
            </option>
          ))}
          {preset === undefined && (
            <option value="custom" disabled>
              {grants.presets.custom}
            </option>
          )}
        </select>
      </label>
      <p id={hint} class="muted">
        {preset === undefined ? grants.custom(textsOf('allow'), textsOf('deny')) : grants.presetHints[preset]}
      </p>
      {note !== undefined && <p role="status">{note}</p>}
      <div class="row-buttons">
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {grants.switches}
        </button>
        {username !== undefined && grant.path.startsWith('/') && (
          // Elsewhere, so that nothing is lost of what was edited.
          <a class="button" target="_blank" href={basePath + addressOfQuestion({ username, path: grant.path })}>
            {texts.explain.here}
          </a>
        )}
        <NamedButton text={texts.remove} of={name} onClick={onRemove} />
      </div>
      {isOpen && <Switches grant={grant} onGrant={onGrant} />}
    </fieldset>
  )
}

/**
 * Returns a function that rejects once for each path at which there is nothing: saved again, the same grants are meant.
 * `known`: grants whose paths are not looked up.
 */
export function usePathCheck(known: readonly EditedGrant[]): (grants: readonly EditedGrant[]) => Promise<void> {
  const [accepted] = useState(() => new Set(known.map(({ path }) => path)))
  return async (grants) => {
    for (const { path } of grants) {
      if (accepted.has(path) || (await exists(path))) continue
      accepted.add(path)
      throw new Error(texts.grants.nothingThere(path))
    }
  }
}

/** What the grant says of every right. */
function Switches({ grant, onGrant }: Pick<GrantFieldProps, 'grant' | 'onGrant'>) {
  const { grants } = texts
  const id = useId()
  const choices = Object.entries(grants.choices) as [Choice, string][]
  const allowsMore = grant.allow.some((right) => right !== Right.see)
  return (
    <>
      <p class="muted">{grants.switchesHint}</p>
      <table class="switches" aria-label={grants.switches}>
        <thead>
          <tr>
            <th scope="col">{grants.right}</th>
            {choices.map(([choice, text]) => (
              <th key={choice} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rights.map((right) => (
            <tr key={right}>
              <th scope="row">{grants.rightTexts[right]}</th>
              {choices.map(([choice, text]) => (
                <td key={choice}>
                  <input
                    type="radio"
                    name={`${id}-${right}`}
                    aria-label={texts.labelled(grants.rightTexts[right], text)}
                    checked={choiceOf(grant, right) === choice}
                    // Whoever is allowed anything sees too.
                    disabled={right === Right.see && choice === 'unmentioned' && allowsMore}
                    onChange={() => onGrant(withChoice(grant, right, choice))}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  )
}

/** Says that a denial ends no link, while links never end. `isDenied`: whether a grant denies to see or to read. */
function LinksStay({ isDenied }: { readonly isDenied: boolean }) {
  const { data } = useQuery({
    queryKey: keys.linkExpiration,
    queryFn: () => get('/api/admin/setting/get', { query: { key: 'link_expiration' } }),
    enabled: isDenied,
  })
  const neverEnd = data !== undefined && !Array.isArray(data) && Number(data.value) === 0
  return <div role="status">{isDenied && neverEnd && <p>{texts.grants.linksStay}</p>}</div>
}
