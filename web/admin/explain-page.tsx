/** What a user may do with a file or folder, and why: the server's decision, step by step. */
import { useState } from 'preact/hooks'
import { useSearch } from 'wouter-preact'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Right } from '../api/schema.ts'
import { reporting } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { useRows } from '../components/rows.ts'
import { FolderField } from '../files/folder-field.tsx'
import { textsOf } from '../texts/texts.ts'
import { decidingStep, findingText, noteText, type Answer } from './explanation.ts'
import { rights } from './grants.ts'

const texts = textsOf('common', 'accounts')

type Protocol = Answer['protocol']

/** The address of the page, with a question that is already entered. */
export function addressOfQuestion(question: { readonly path?: string; readonly username?: string }): string {
  return `/@manage/explain?${new URLSearchParams(question).toString()}`
}

export function ExplainPage() {
  const given = new URLSearchParams(useSearch())
  const { data: users } = useRows(keys.users, () => get('/api/admin/user/list'))
  const [chosen, setChosen] = useState(given.get('username') ?? '')
  const [path, setPath] = useState(given.get('path') ?? '/')
  const [action, setAction] = useState(Right.read)
  const [protocol, setProtocol] = useState<Protocol>('http')
  const [address, setAddress] = useState('')
  const [answer, setAnswer] = useState<Answer>()
  const username = chosen || (users?.content[0]?.username ?? '')
  const { explain, grants } = texts
  async function ask(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    setAnswer(undefined)
    const question = { username, path, right: action, protocol, ...(address !== '' && { address }) }
    await reporting(post('/api/admin/explain', question).then((answer) => setAnswer({ ...answer, protocol })))
  }
  return (
    <Page title={texts.pages.explain}>
      <p class="muted">{explain.about}</p>
      <form class="form" onSubmit={(event) => void ask(event)}>
        <label>
          {explain.user}
          <select value={username} onChange={({ currentTarget }) => setChosen(currentTarget.value)}>
            {users?.content.map((user) => (
              <option key={user.id} value={user.username}>
                {user.username}
              </option>
            ))}
          </select>
        </label>
        <FolderField label={explain.path} path={path} onPath={setPath} />
        <label>
          {explain.action}
          <select
            value={action}
            onChange={({ currentTarget }) => setAction(rights[currentTarget.selectedIndex] ?? Right.read)}
          >
            {rights.map((right) => (
              <option key={right} value={right}>
                {grants.rightTexts[right]}
              </option>
            ))}
          </select>
        </label>
        <label>
          {explain.protocol}
          <select value={protocol} onChange={({ currentTarget }) => setProtocol(currentTarget.value as Protocol)}>
            {Object.entries(explain.protocols).map(([name, text]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label>
          {explain.address}
          <input autocomplete="off" value={address} onInput={({ currentTarget }) => setAddress(currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={username === ''}>
          {explain.ask}
        </button>
      </form>
      <div role="status">{answer && <Explanation answer={answer} />}</div>
    </Page>
  )
}

/** What was found, in the words of the server if those of the console are missing. */
function Found({ text, given }: { readonly text: string | undefined; readonly given: string }) {
  return <span lang={text === undefined ? 'en' : undefined}>{text ?? given}</span>
}

function Explanation({ answer }: { readonly answer: Answer }) {
  const { explain } = texts
  const deciding = decidingStep(answer)
  return (
    <>
      <h2>{answer.allowed ? explain.allowed : explain.refused}</h2>
      <p>
        {explain.decidedBy}
        <Found text={findingText(answer, deciding)} given={deciding.text} />
      </p>
      <h3>{explain.steps}</h3>
      <ol>
        {answer.steps.map((step, index) => (
          <li key={index}>
            <Found text={findingText(answer, step)} given={step.text} />{' '}
            {step.refused && <strong>{explain.refusedHere}</strong>}
          </li>
        ))}
      </ol>
      {answer.facts.length > 0 && (
        <>
          <h3>{explain.notes}</h3>
          <ul>
            {answer.facts.map((note) => (
              <li key={note.text}>
                <Found text={noteText(note)} given={note.text} />
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  )
}
