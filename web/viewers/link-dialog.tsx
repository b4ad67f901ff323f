/** Shows a signed link to one file, for as long as the user chooses. */
import { useQuery } from '@tanstack/preact-query'
import { useId, useRef, useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { copyText } from '../components/copy-text.ts'
import { Dialog } from '../components/dialog.tsx'
import { messageOf } from '../components/error-text.ts'
import { formatTime } from '../texts/format.ts'
import { report } from '../components/notices.tsx'
import { joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { folderPasswords } from '../session/folder-passwords.ts'

const texts = textsOf('files', 'changes')

/** Choices of the validity in seconds; 0: for ever. */
const validities = { hour: 3600, day: 86400, week: 604800, month: 2592000, never: 0 } as const
type Validity = keyof typeof validities

/** `path`: the folder of the file. */
export function LinkDialog({
  path,
  name,
  onClose,
}: {
  readonly path: string
  readonly name: string
  readonly onClose: () => void
}) {
  const [validity, setValidity] = useState<Validity>('week')
  const file = joined(path, name)
  const { data: link, error } = useQuery({
    queryKey: keys.link(file, validity),
    queryFn: () =>
      post('/api/fs/share_link', { path: file, password: folderPasswords.of(path), expires_in: validities[validity] }),
    // Each dialog makes a link of its own, whose time begins now.
    gcTime: 0,
    staleTime: Infinity,
  })
  const id = useId()
  const shown = useRef<HTMLInputElement>(null)
  async function copy(): Promise<void> {
    await copyText(link?.url ?? '', shown.current)
    report(texts.changes.linkCopied)
  }
  return (
    <Dialog
      title={texts.files.link}
      action={texts.changes.copyLink}
      disabled={link === undefined}
      onClose={onClose}
      onConfirm={copy}
    >
      <p>{texts.changes.linkHint(name)}</p>
      <label>
        {texts.changes.linkValidity}
        <select value={validity} autofocus onChange={(event) => setValidity(event.currentTarget.value as Validity)}>
          {Object.entries(texts.changes.validities).map(([name, text]) => (
            <option key={name} value={name}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label>
        {texts.changes.linkAddress}
        <input
          ref={shown}
          value={link?.url ?? ''}
          readOnly
          aria-describedby={id}
          onFocus={(event) => event.currentTarget.select()}
        />
      </label>
      <p id={id} class="muted">
        {link &&
          (link.expires === null ? texts.changes.linkForEver : texts.changes.linkUntil(formatTime(link.expires)))}
      </p>
      {error && (
        <p role="alert" class="error">
          {messageOf(error)}
        </p>
      )}
    </Dialog>
  )
}
