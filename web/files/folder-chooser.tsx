/** A tree of folders, one of which is chosen, and a way to make another. */
import { FolderPlus } from 'lucide-preact'
import { useRef, useState } from 'preact/hooks'
import { reporting } from '../components/notices.tsx'
import { ancestorsOf, joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { useFolderTree, withFolder } from './folder-tree.ts'
import { FolderTree } from './folder-tree-view.tsx'
import { makeFolder } from './new-folder-dialog.tsx'

const texts = textsOf('files', 'changes')

interface FolderChooserProps {
  /** The chosen folder. */
  readonly path: string
  readonly onPath: (path: string) => void
}

export function FolderChooser({ path, onPath }: FolderChooserProps) {
  const [expanded, setExpanded] = useState<ReadonlySet<string>>(() => new Set(ancestorsOf(path)))
  const nodes = useFolderTree(expanded)
  const expand = (folder: string, isExpanded: boolean) => setExpanded(withFolder(expanded, folder, isExpanded))
  const tree = useRef<HTMLDivElement>(null)
  return (
    <>
      <div ref={tree} class="folder-chooser">
        <FolderTree
          label={texts.changes.folders}
          nodes={nodes}
          active={path}
          onActive={onPath}
          onExpand={expand}
          onEnter={() => tree.current?.closest('form')?.requestSubmit()}
        />
      </div>
      <NewFolder
        folder={path}
        onMade={(made) => {
          expand(path, true)
          onPath(made)
        }}
      />
    </>
  )
}

interface NewFolderProps {
  readonly folder: string
  readonly onMade: (path: string) => void
}

/** A button, and then a field, by which a folder is made in the chosen one. */
function NewFolder({ folder, onMade }: NewFolderProps) {
  const [name, setName] = useState<string>()
  async function make(): Promise<void> {
    if (name === undefined || name === '') return
    const isMade = await reporting(makeFolder(folder, name))
    if (!isMade) return
    setName(undefined)
    onMade(joined(folder, name))
  }
  if (name === undefined) {
    return (
      <div>
        <button type="button" onClick={() => setName('')}>
          <FolderPlus aria-hidden size={16} /> {texts.files.newFolder}
        </button>
      </div>
    )
  }
  return (
    <div class="field-with-button">
      <label>
        {texts.changes.newFolderIn(folder)}
        <input
          value={name}
          ref={focused}
          autocomplete="off"
          onInput={(event) => setName(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return
            // Enter would submit the dialog.
            event.preventDefault()
            void make()
          }}
        />
      </label>
      <button type="button" disabled={name === ''} onClick={() => void make()}>
        {texts.changes.create}
      </button>
    </div>
  )
}

function focused(input: HTMLInputElement | null): void {
  if (input?.value === '') input.focus()
}
