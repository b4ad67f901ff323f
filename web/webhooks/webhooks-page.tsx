/** The webhooks: where events are sent, whether they arrive, and the forms that make and change them. */
import { Webhook as WebhookIcon } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Copyable } from '../components/copyable.tsx'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { NamedButton } from '../components/named-button.tsx'
import { report, reportFailure, reporting } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { change, changed, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import { DeliveriesDialog } from './deliveries-dialog.tsx'
import { WebhookForm } from './webhook-form.tsx'
import { chosenText, type Webhook } from './webhook.ts'

const texts = textsOf('common', 'files', 'webhooks')

/** Kinds and paths that a row names. */
const mostNamed = 4
/** Milliseconds between two requests: deliveries change what waits and what is on. */
const pollInterval = 3000

/** A dialog about one of the webhooks. */
interface OpenDialog {
  readonly kind: 'edit' | 'failures' | 'rotate' | 'delete'
  readonly hook: Webhook
}

export function WebhooksPage() {
  const { data, error, refetch } = useRows(keys.webhooks, () => get('/api/admin/webhook/list'), pollInterval)
  const [dialog, setDialog] = useState<OpenDialog | 'new'>()
  const [secret, setSecret] = useState<string>()
  const { webhooks } = texts
  const close = () => setDialog(undefined)
  const open = dialog === 'new' ? undefined : dialog
  /** The webhook as it is now: it can be switched on or off while its dialog is open. */
  const nowOf = (hook: Webhook) => data?.content.find(({ id }) => id === hook.id) ?? hook
  async function rotate({ id }: Webhook): Promise<void> {
    const made = await post('/api/admin/webhook/rotate', undefined, { query: { id } })
    await changed(keys.webhooks)
    setSecret(made.secret)
  }
  return (
    <Page title={texts.pages.webhooks}>
      <p class="muted">
        {webhooks.about} <Link href="/@manual/webhooks">{webhooks.manual}</Link>
      </p>
      <button type="button" class="primary" onClick={() => setDialog('new')}>
        {webhooks.add}
      </button>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data?.total === 0 && <Empty Icon={WebhookIcon} text={webhooks.none} />}
      {data && data.total > 0 && (
        <Table
          caption={texts.pages.webhooks}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [webhooks.name]: ({ name }) => name,
            [webhooks.url]: ({ url }) => url,
            [webhooks.sends]: sends,
            [webhooks.state]: (hook) => <State hook={hook} />,
          }}
          actions={(hook) => <Actions hook={hook} onDialog={(kind) => setDialog({ kind, hook })} />}
        />
      )}
      {dialog === 'new' && <WebhookForm onClose={close} onSecret={setSecret} />}
      {open?.kind === 'edit' && <WebhookForm hook={open.hook} onClose={close} onSecret={setSecret} />}
      {open?.kind === 'failures' && <DeliveriesDialog hook={nowOf(open.hook)} onClose={close} />}
      {open?.kind === 'rotate' && (
        <Dialog
          title={webhooks.rotateTitle(open.hook.name)}
          action={webhooks.rotate}
          onClose={close}
          onConfirm={() => rotate(open.hook)}
        >
          <p>{webhooks.rotateWarning}</p>
        </Dialog>
      )}
      {open?.kind === 'delete' && (
        <DeleteDialog
          title={webhooks.deleteTitle}
          warning={webhooks.deleteWarning(open.hook.name)}
          onClose={close}
          onDelete={() =>
            change(keys.webhooks, post('/api/admin/webhook/delete', undefined, { query: { id: open.hook.id } }))
          }
        />
      )}
      {secret !== undefined && dialog === undefined && (
        <Dialog title={webhooks.secret} onClose={() => setSecret(undefined)}>
          <p>{webhooks.secretShown}</p>
          <Copyable text={secret} />
        </Dialog>
      )}
    </Page>
  )
}

function sends({ kinds, paths }: Webhook): string {
  const named = [...kinds.map(chosenText), ...paths]
  if (named.length === 0) return texts.webhooks.everything
  return texts.andMore(named.slice(0, mostNamed), Math.max(0, named.length - mostNamed))
}

function State({ hook }: { readonly hook: Webhook }) {
  const { webhooks } = texts
  const { enabled, disabled_reason: reason, waiting, failed } = hook
  return (
    <>
      {enabled ? (
        <span>{webhooks.on}</span>
      ) : reason === null ? (
        <span class="muted">{webhooks.off}</span>
      ) : (
        <span class="error">
          {webhooks.switchedOff}
          <span lang="en">{reason}</span>
        </span>
      )}
      {waiting > 0 && webhooks.waiting(waiting)}
      {failed > 0 && <span class="error">{webhooks.failed(failed)}</span>}
    </>
  )
}

interface ActionsProps {
  readonly hook: Webhook
  readonly onDialog: (kind: OpenDialog['kind']) => void
}

function Actions({ hook: { id, name, enabled }, onDialog }: ActionsProps) {
  const { webhooks } = texts
  const button = (text: string, onClick: () => void) => <NamedButton text={text} of={name} onClick={onClick} />
  const switched = () => change(keys.webhooks, post('/api/admin/webhook/update', { id, enabled: !enabled }))
  async function test(): Promise<void> {
    const { error, milliseconds } = await post('/api/admin/webhook/test', undefined, { query: { id } })
    if (error === null) report(webhooks.tested(name, milliseconds))
    else reportFailure(new Error(webhooks.testFailed(name, error)))
  }
  return (
    <>
      {button(webhooks.test, () => void reporting(test()))}
      {button(webhooks.failures, () => onDialog('failures'))}
      {button(enabled ? webhooks.turnOff : webhooks.turnOn, () => void switched())}
      {button(webhooks.edit, () => onDialog('edit'))}
      {button(webhooks.rotate, () => onDialog('rotate'))}
      <NamedButton deletes text={texts.files.remove} of={name} onClick={() => onDialog('delete')} />
    </>
  )
}
