/** Renames several entries by a pattern, after showing every new name. */
import { useQuery } from '@tanstack/preact-query'
import { useMemo, useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Dialog } from '../components/dialog.tsx'
import { messageOf } from '../components/error-text.ts'
import { report } from '../components/notices.tsx'
import { VirtualList } from '../components/virtual-list.tsx'
import { textsOf } from '../texts/texts.ts'
import { useBatches, type ChangeProps } from './change.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { allNames } from '../entries/folder.ts'
import { inOrder, renamings, type Renaming, type Scheme } from './renaming.ts'
import './batch-rename-dialog.css'

const texts = textsOf('files', 'changes')

const firstScheme: Scheme = {
  kind: 'replace',
  find: '',
  replacement: '',
  isRegex: false,
  pattern: '',
  first: 1,
  keepsExtension: true,
}

export function BatchRenameDialog({ path, names, onClose }: ChangeProps) {
  const [scheme, setScheme] = useState(firstScheme)
  const batches = useBatches()
  const { data: taken, error } = useQuery({
    queryKey: keys.names(path),
    queryFn: async () => new Set(await allNames(path, { sort_by: 'name', sort_direction: 'asc', contains: '' })),
    // Not loaded again: if some are renamed and then a request fails, their new names are not in the way of the rest.
    staleTime: 'static',
    gcTime: 0,
  })
  const { planned, fault } = usePlan(names, scheme, taken)
  const changed = planned.filter(({ from, to }) => from !== to)
  const problems = planned.filter(({ problem }) => problem !== undefined).length
  async function perform(): Promise<void> {
    const password = folderPasswords.of(path)
    await batches.send(inOrder(planned).ordered, [path], (some, signal) => {
      const renamed = some.map(({ from, to }) => ({ src_name: from, new_name: to }))
      return post('/api/fs/batch_rename', { src_dir: path, rename_objects: renamed }, { password, signal })
    })
    report(texts.changes.renamedMany(changed.length))
  }
  return (
    <Dialog
      title={texts.files.rename}
      action={texts.files.rename}
      wide
      disabled={taken === undefined || changed.length === 0 || problems > 0}
      onClose={onClose}
      onConfirm={perform}
    >
      <SchemeFields scheme={scheme} onScheme={setScheme} />
      {fault !== undefined && <p role="alert">{fault}</p>}
      {error && <p role="alert">{messageOf(error)}</p>}
      <p role="status">
        {problems === 0 ? texts.changes.plan(changed.length, names.length) : texts.changes.planFails(problems)}
      </p>
      <VirtualList
        label={texts.changes.preview}
        count={planned.length}
        item={(index) => <Preview renaming={planned[index]} />}
      />
      {batches.done > 0 && <p role="status">{texts.changes.progress(batches.done, changed.length)}</p>}
    </Dialog>
  )
}

/** `fault`: what is wrong with the pattern; nothing is renamed then. */
function usePlan(
  names: readonly string[],
  scheme: Scheme,
  taken: ReadonlySet<string> | undefined,
): { readonly planned: readonly Renaming[]; readonly fault?: string } {
  return useMemo(() => {
    try {
      return { planned: renamings(names, scheme, taken ?? new Set()) }
    } catch (error) {
      return {
        planned: names.map((name) => ({ from: name, to: name })),
        fault: error instanceof SyntaxError ? texts.changes.notRegex : messageOf(error),
      }
    }
  }, [names, scheme, taken])
}

function Preview({ renaming }: { readonly renaming: Renaming | undefined }) {
  if (!renaming) return null
  const { from, to, problem } = renaming
  return (
    <>
      <span class="name">{from}</span>
      <span aria-hidden>→</span>
      {from === to ? (
        <span class="muted">{texts.changes.unchanged}</span>
      ) : (
        <strong class={problem === undefined ? 'name' : 'name error'}>{to}</strong>
      )}
      {problem !== undefined && <span class="error problem">{texts.changes.problems[problem]}</span>}
    </>
  )
}

interface SchemeFieldsProps {
  readonly scheme: Scheme
  readonly onScheme: (scheme: Scheme) => void
}

function SchemeFields({ scheme, onScheme }: SchemeFieldsProps) {
  const set = (fields: Partial<Scheme>) => onScheme({ ...scheme, ...fields })
  const text = (name: 'find' | 'replacement' | 'pattern', isFirst = false) => (
    <label>
      {texts.changes[name]}
      <input
        value={scheme[name]}
        autocomplete="off"
        autofocus={isFirst}
        onInput={(event) => set({ [name]: event.currentTarget.value })}
      />
    </label>
  )
  const check = (name: 'isRegex' | 'keepsExtension') => (
    <label class="check">
      <input
        type="checkbox"
        checked={scheme[name]}
        onChange={(event) => set({ [name]: event.currentTarget.checked })}
      />
      {texts.changes[name]}
    </label>
  )
  return (
    <div class="scheme">
      <label>
        {texts.changes.scheme}
        <select value={scheme.kind} onChange={(event) => set({ kind: event.currentTarget.value as Scheme['kind'] })}>
          <option value="replace">{texts.changes.schemes.replace}</option>
          <option value="number">{texts.changes.schemes.number}</option>
        </select>
      </label>
      {scheme.kind === 'replace' ? (
        <>
          {text('find', true)}
          {text('replacement')}
          {check('isRegex')}
        </>
      ) : (
        <>
          {text('pattern')}
          <label>
            {texts.changes.firstNumber}
            <input
              type="number"
              min={0}
              step={1}
              value={scheme.first}
              onInput={(event) => set({ first: Math.max(0, Math.trunc(event.currentTarget.valueAsNumber || 0)) })}
            />
          </label>
        </>
      )}
      {check('keepsExtension')}
    </div>
  )
}
