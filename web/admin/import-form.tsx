/** The import of another program's data: its files, a report of what would be taken, then the import itself. */
import { useState } from 'preact/hooks'
import { ApiError, postFiles, type Data } from '../api/client.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { Failure } from '../components/failure.tsx'
import { linesOf } from '../components/form-values.ts'
import { Table } from '../components/table.tsx'
import { list, number } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('import')

type Program = keyof typeof texts.import.programs

/** The names of the files that the import uses. */
const neededFiles = {
  alist: /^(?:config\.json|ssh_host_rsa_key|[\w-]+\.db(?:-wal)?)$/,
  filebrowser: /^(?:users|config|shares)\.json$/,
  quantum: /^[\w-]+\.(?:db|sqlite)(?:-wal)?$/,
} as const

type Report = Data<'/api/admin/import'>

export function ImportForm() {
  const [program, setProgram] = useState<Program>('openlist')
  const [files, setFiles] = useState<readonly File[]>([])
  const [root, setRoot] = useState('')
  const [sources, setSources] = useState('')
  const [report, setReport] = useState<Report>()
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const words = texts.import
  const kind = program === 'openlist' ? 'alist' : program
  const isDone = report?.dry_run === false

  /** What was reported is that of other files. */
  function changed(): void {
    setReport(undefined)
    setError(undefined)
  }
  function choose(input: HTMLInputElement): void {
    const chosen = [...(input.files ?? [])].filter(({ name }) => neededFiles[kind].test(name))
    input.value = ''
    setFiles((before) => [...before.filter(({ name }) => chosen.every((file) => file.name !== name)), ...chosen])
    changed()
  }
  async function send(dryRun: boolean): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      const query = { program, dry_run: dryRun, root, allow_by_default: linesOf(sources) }
      setReport(await postFiles('/api/admin/import', query, files))
    } catch (failure) {
      setError(failure instanceof ApiError && failure.error === 'exists' ? new Error(words.notNew) : failure)
    }
    setBusy(false)
  }

  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault()
        void send(true)
      }}
    >
      <label>
        {words.program}
        <select
          value={program}
          disabled={isDone}
          onChange={(event) => {
            setProgram(event.currentTarget.value as Program)
            setFiles([])
            changed()
          }}
        >
          {Object.entries(words.programs).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <p>{words.hints[kind]}</p>
      <label>
        {words.files}
        <input type="file" multiple disabled={isDone} onChange={(event) => choose(event.currentTarget)} />
      </label>
      {files.length > 0 && <p>{words.chosen(list(files.map(({ name }) => name)))}</p>}
      {kind === 'filebrowser' && (
        <label>
          {words.root}
          <input
            value={root}
            disabled={isDone}
            onInput={(event) => {
              setRoot(event.currentTarget.value)
              changed()
            }}
          />
        </label>
      )}
      {kind === 'quantum' && (
        <label>
          {words.openSources}
          <textarea
            value={sources}
            rows={2}
            disabled={isDone}
            onInput={(event) => {
              setSources(event.currentTarget.value)
              changed()
            }}
          />
        </label>
      )}
      {!isDone && (
        <button type="submit" disabled={busy || files.length === 0}>
          {words.dryRun}
        </button>
      )}
      {error !== undefined && <Failure error={error} />}
      {report && <ImportReport report={report} />}
      {report?.dry_run === true && (
        <>
          <p>{words.warning}</p>
          <button type="button" class="primary" disabled={busy} onClick={() => void send(false)}>
            {words.run}
          </button>
        </>
      )}
      {isDone && (
        <>
          <p>{words.done}</p>
          <button type="button" class="primary" onClick={() => void askWhoIsSignedIn()}>
            {words.signIn}
          </button>
        </>
      )}
    </form>
  )
}

function ImportReport({ report: { items, notes } }: { readonly report: Report }) {
  const words = texts.import
  const count = (outcome: Report['items'][number]['outcome']) =>
    number(items.filter((item) => item.outcome === outcome).length)
  return (
    <>
      <p role="status">{words.counts(count('taken'), count('changed'), count('left out'))}</p>
      <Table
        caption={words.report}
        rows={items}
        keyOf={({ kind, name }) => `${kind} ${name}`}
        columns={{
          [words.columns.kind]: ({ kind }) => words.kinds[kind],
          [words.columns.name]: ({ name }) => name,
          [words.columns.outcome]: ({ outcome }) => words.outcomes[outcome],
          [words.columns.reason]: ({ reason }) => <span lang="en">{reason}</span>,
        }}
      />
      {notes.map((note) => (
        <p key={note} lang="en">
          {note}
        </p>
      ))}
    </>
  )
}
