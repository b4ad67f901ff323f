/** The form of a webhook. */
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Check } from '../components/check.tsx'
import { ChoiceList } from '../components/choice-list.tsx'
import { Dialog } from '../components/dialog.tsx'
import { linesOf } from '../components/form-values.ts'
import { changed } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import { chosenText, offeredKinds, type Webhook } from './webhook.ts'

const texts = textsOf('common', 'webhooks')

interface WebhookFormProps {
  /** Absent: a new one. */
  readonly hook?: Webhook
  /** Called with the secret of a new one. */
  readonly onSecret: (secret: string) => void
  readonly onClose: () => void
}

export function WebhookForm({ hook, onSecret, onClose }: WebhookFormProps) {
  const [name, setName] = useState(hook?.name ?? '')
  const [url, setUrl] = useState(hook?.url ?? '')
  const [kinds, setKinds] = useState<readonly string[]>(hook?.kinds ?? [])
  const [paths, setPaths] = useState(hook?.paths.join('\n') ?? '')
  const [enabled, setEnabled] = useState(hook?.enabled ?? true)
  const { webhooks } = texts
  // A command may have chosen others.
  const [offered] = useState(() => [...new Set([...offeredKinds, ...kinds])])
  async function save(): Promise<void> {
    const fields = { name, url, kinds: [...kinds], paths: linesOf(paths), enabled }
    if (hook) await post('/api/admin/webhook/update', { id: hook.id, ...fields })
    else onSecret((await post('/api/admin/webhook/create', fields)).secret)
    await changed(keys.webhooks)
  }
  return (
    <Dialog
      title={hook ? webhooks.editTitle(hook.name) : webhooks.add}
      action={texts.save}
      wide
      onClose={onClose}
      onConfirm={save}
    >
      <label>
        {webhooks.name}
        <input required autocomplete="off" value={name} onInput={({ currentTarget }) => setName(currentTarget.value)} />
      </label>
      <label>
        {webhooks.url}
        <input
          type="url"
          required
          autocomplete="off"
          placeholder="https://"
          value={url}
          onInput={({ currentTarget }) => setUrl(currentTarget.value)}
        />
      </label>
      <ChoiceList
        legend={webhooks.kinds}
        options={offered.map((kind, id) => ({ id, name: chosenText(kind) }))}
        chosen={kinds.map((kind) => offered.indexOf(kind))}
        onChosen={(ids) => setKinds(ids.flatMap((id) => offered[id] ?? []))}
      />
      <div class="field">
        <label>
          {webhooks.paths}
          <textarea
            rows={3}
            value={paths}
            aria-describedby="webhook-paths"
            onInput={({ currentTarget }) => setPaths(currentTarget.value)}
          />
        </label>
        <p id="webhook-paths" class="muted">
          {webhooks.pathsHint}
        </p>
      </div>
      <Check text={webhooks.enabled} checked={enabled} onChecked={setEnabled} />
    </Dialog>
  )
}
