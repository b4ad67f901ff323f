/** The entries that the user has cut or copied, until they are pasted into another folder. */
import { signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Me } from '../session/me.ts'
import { startDroppedUploads } from '../uploads/start-uploads.ts'
import type { Actions } from './actions.ts'
import { selection } from './selection.ts'
import { startTransfer, type Chosen, type TransferKind } from './transfer.ts'

interface Clipboard extends Chosen {
  readonly kind: TransferKind
  /** The name of the user whose it is. */
  readonly owner: string
}

const kept = signal<Clipboard>()

/** What the user has cut or copied. */
export function clipboardOf(me: Me | undefined): Clipboard | undefined {
  return kept.value?.owner === me?.username ? kept.value : undefined
}

export function clearClipboard(): void {
  kept.value = undefined
}

/** Keeps the entries, and their names as a text for other programs. */
export function take(kind: TransferKind, from: string, names: Iterable<string>, me: Me): void {
  keep(kind, from, names, me)
  // Where the browser forbids it, the names are only not there for other programs.
  if (window.isSecureContext) navigator.clipboard.writeText(namesAsText(names)).catch(() => undefined)
}

function keep(kind: TransferKind, from: string, names: Iterable<string>, me: Me): void {
  kept.value = { kind, from, names: new Set(names), owner: me.username }
}

function namesAsText(names: Iterable<string>): string {
  return [...names].join('\n')
}

/** Moves or copies what is kept to the folder. What was cut is gone then, unless it fails. */
export async function paste(pasted: Clipboard, to: string): Promise<void> {
  const { kind, from, names } = pasted
  if (kind === 'move') clearClipboard()
  const isDone = await startTransfer({ kind, from, names: [...names], to })
  if (!isDone && kind === 'move' && kept.peek() === undefined) kept.value = pasted
}

/**
 * Cuts, copies and pastes entries by the keys and the menu of the browser, unless they are meant for a text. Files of
 * other programs are uploaded.
 */
export function useClipboardEvents(path: string, me: Me | undefined, actions: Actions): void {
  const latest = useRef({ path, me, actions })
  latest.current = { path, me, actions }
  // Not a moment after the folder is shown.
  useLayoutEffect(() => {
    const listening = new AbortController()
    const { signal } = listening
    const onTake = (event: ClipboardEvent): void => {
      const { path, me, actions } = latest.current
      const [kind, action] = event.type === 'cut' ? (['move', 'cut'] as const) : (['copy', 'toClipboard'] as const)
      if (isOfText(event) || me === undefined || !actions.allows(action)) return
      event.preventDefault()
      event.clipboardData?.setData('text/plain', namesAsText(selection.value))
      keep(kind, path, selection.value, me)
    }
    addEventListener('copy', onTake, { signal })
    addEventListener('cut', onTake, { signal })
    addEventListener(
      'paste',
      (event) => {
        const { path, actions } = latest.current
        if (isOfText(event)) return
        const items = event.clipboardData?.items
        const hasFiles = items !== undefined && [...items].some(({ kind }) => kind === 'file')
        if (hasFiles && actions.grants('upload')) startDroppedUploads({ path, takesFolders: true }, items)
        else if (!hasFiles && actions.allows('paste')) actions.start('paste')
        else return
        event.preventDefault()
      },
      { signal },
    )
    return () => listening.abort()
  }, [])
}

/** Whether the event is meant for a text that is selected or edited, or for a dialog. */
function isOfText({ target }: ClipboardEvent): boolean {
  if (document.querySelector('dialog[open]') !== null) return true
  if (getSelection()?.isCollapsed === false) return true
  return target instanceof HTMLElement && (target.isContentEditable || target.matches(editable))
}

const editable = 'textarea, select, input:not([type="checkbox"])'
