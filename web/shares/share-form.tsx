/** The form of a share. */
import { useState } from 'preact/hooks'
import { ApiError } from '../api/client.ts'
import { ShareMode } from '../api/schema.ts'
import { Check } from '../components/check.tsx'
import { Dialog } from '../components/dialog.tsx'
import { EndField } from '../components/end-field.tsx'
import type { Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import { textsOf } from '../texts/texts.ts'
import { editedShare, randomCode, type EditedShare, type Share } from './share.ts'
import { TextField } from './text-field.tsx'

const texts = textsOf('shares', 'accounts')

interface ShareFormProps {
  readonly me: Me
  readonly title: string
  readonly action: string
  /** The share to edit. Absent: a new one. */
  readonly share?: Share
  /** The number of files and folders. */
  readonly count: number
  /** Whether any of them is known to be a file. */
  readonly hasFiles: boolean
  readonly onSave: (edited: EditedShare) => Promise<void>
  readonly onClose: () => void
}

const modes = Object.values(ShareMode)

export function ShareForm({ me, title, action, share, count, hasFiles, onSave, onClose }: ShareFormProps) {
  const [edited, setEdited] = useState(() => editedShare(share))
  const { shares } = texts
  const set = (changes: Partial<EditedShare>) => setEdited((before) => ({ ...before, ...changes }))
  const takesUploads = edited.mode !== ShareMode.read
  const mayName = may(me, 'customShareId')
  async function save(): Promise<void> {
    try {
      await onSave(edited)
    } catch (error) {
      const isFile = error instanceof ApiError && error.error === 'not_folder'
      throw isFile ? new Error(shares.foldersOnly, { cause: error }) : error
    }
  }
  return (
    <Dialog title={title} action={action} onClose={onClose} onConfirm={save}>
      <div class="field">
        <label>
          {shares.mode}
          <select
            value={edited.mode}
            autofocus
            onChange={({ currentTarget }) => set({ mode: modes[currentTarget.selectedIndex] ?? edited.mode })}
          >
            {modes.map((mode) => (
              <option key={mode} value={mode} disabled={mode !== share?.mode && !isPossible(mode, count, hasFiles)}>
                {shares.modes[mode]}
              </option>
            ))}
          </select>
        </label>
        <p class="muted">{shares.modeHints[edited.mode]}</p>
      </div>
      <div class="field">
        <div class="field-with-button">
          <TextField label={shares.code} value={edited.code} onValue={(code) => set({ code })} />
          <button type="button" onClick={() => set({ code: randomCode() })}>
            {shares.generate}
          </button>
        </div>
        <p class="muted">{shares.codeHint}</p>
      </div>
      <EndField label={shares.ends} time={edited.expires} onTime={(expires) => set({ expires })} />
      <TextField
        label={shares.maxVisits}
        hint={shares.maxVisitsHint}
        type="number"
        value={edited.visits}
        onValue={(visits) => set({ visits })}
      />
      {takesUploads && (
        <>
          <TextField
            label={shares.uploadFiles}
            hint={shares.noLimit}
            type="number"
            value={edited.files}
            onValue={(files) => set({ files })}
          />
          <TextField
            label={shares.uploadBytes}
            hint={shares.noLimit}
            type="number"
            step="any"
            value={edited.megabytes}
            onValue={(megabytes) => set({ megabytes })}
          />
        </>
      )}
      <TextField
        label={shares.remark}
        hint={shares.remarkHint}
        value={edited.remark}
        onValue={(remark) => set({ remark })}
      />
      <details>
        <summary>{shares.more}</summary>
        <div class="form">
          <TextField
            label={shares.header}
            hint={shares.textHint}
            rows={2}
            value={edited.header}
            onValue={(header) => set({ header })}
          />
          <TextField
            label={shares.readme}
            hint={shares.textHint}
            rows={2}
            value={edited.readme}
            onValue={(readme) => set({ readme })}
          />
          <TextField
            label={shares.allowFrom}
            hint={texts.users.allowFromHint}
            rows={2}
            value={edited.networks}
            onValue={(networks) => set({ networks })}
          />
          {mayName && (
            <TextField label={shares.id} hint={shares.idHint} value={edited.id} onValue={(id) => set({ id })} />
          )}
          {edited.mode !== ShareMode.upload && (
            <Check text={shares.webdav} checked={edited.webdav} onChecked={(webdav) => set({ webdav })} />
          )}
        </div>
      </details>
    </Dialog>
  )
}

/** Visitors send files to a folder: the top of a share of several is none of the tree. */
function isPossible(mode: ShareMode, count: number, hasFiles: boolean): boolean {
  if (mode === ShareMode.read) return true
  return !hasFiles && (count === 1 || mode === ShareMode.both)
}
