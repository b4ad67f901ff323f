/** What is in the clipboard, with what can be done with it, and the transfers that are under way. */
import { ClipboardPaste, X } from 'lucide-preact'
import { textsOf } from '../texts/texts.ts'
import type { Me } from '../session/me.ts'
import type { Actions } from './actions.ts'
import { clearClipboard, clipboardOf } from './clipboard.ts'
import { focusGrid } from './file-grid.tsx'
import { transfersUnderWay } from './transfer.ts'
import './clipboard-bar.css'

const texts = textsOf('files')

export function ClipboardBar({ me, actions }: { readonly me: Me | undefined; readonly actions: Actions }) {
  const kept = clipboardOf(me)
  const [underWay] = transfersUnderWay.value
  return (
    <div class="clipboard-bar">
      <p role="status" class="clipboard">
        {underWay
          ? texts.files.underWay[underWay.kind](underWay.names.length)
          : kept && texts.files.kept[kept.kind](kept.names.size, kept.from)}
      </p>
      {kept && !underWay && (
        <div class="clipboard-tools">
          <button
            type="button"
            disabled={!actions.allows('paste')}
            onClick={() => {
              focusGrid()
              actions.start('paste')
            }}
          >
            <ClipboardPaste aria-hidden size={16} />
            {texts.files.pasteHere}
          </button>
          <button
            type="button"
            class="quiet icon"
            aria-label={texts.files.clearClipboard}
            title={texts.files.clearClipboard}
            onClick={() => {
              focusGrid()
              clearClipboard()
            }}
          >
            <X aria-hidden size={16} />
          </button>
        </div>
      )}
    </div>
  )
}
