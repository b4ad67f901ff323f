/** A tree of folders, one of which is chosen (ARIA Authoring Practices, tree view pattern). */
import { ChevronDown, ChevronRight, Folder, FolderPlus } from 'lucide-preact'
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks'
import { rowHeight } from '../components/appearance.ts'
import { reporting } from '../components/notices.tsx'
import { joined, parentOf } from '../components/places.ts'
import { useVirtualizer, withItem } from '../components/virtual.ts'
import { textsOf } from '../texts/texts.ts'
import { useFolderTree, type FolderNode } from './folder-tree.ts'
import { makeFolder } from './new-folder-dialog.tsx'
import './folder-chooser.css'

const texts = textsOf('files', 'changes')

/** The indentation of a folder for each level, in pixels. */
const indentation = 18

interface FolderChooserProps {
  /** The chosen folder. */
  readonly path: string
  readonly onPath: (path: string) => void
}

export function FolderChooser({ path, onPath }: FolderChooserProps) {
  const [expanded, setExpanded] = useState<ReadonlySet<string>>(() => new Set(ancestorsOf(path)))
  const nodes = useFolderTree(expanded)
  const id = useId()
  const height = useMemo(rowHeight, [])
  const scroller = useRef<HTMLDivElement>(null)
  const active = Math.max(
    0,
    nodes.findIndex((node) => node.path === path),
  )
  const virtualizer = useVirtualizer({
    count: nodes.length,
    overscan: 8,
    rangeExtractor: withItem(active),
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
  })
  useEffect(() => virtualizer.scrollToIndex(active), [active])
  const items = virtualizer.getVirtualItems()

  function expand(folder: string, isExpanded = true): void {
    const folders = new Set(expanded)
    if (isExpanded) folders.add(folder)
    else folders.delete(folder)
    setExpanded(folders)
  }

  function moveTo(index: number): void {
    const node = nodes[Math.min(Math.max(index, 0), nodes.length - 1)]
    if (node) onPath(node.path)
  }

  function onKeyDown(event: KeyboardEvent): void {
    const node = nodes[active]
    if (!node || event.ctrlKey || event.altKey || event.metaKey) return
    if (event.key === 'ArrowDown') moveTo(active + 1)
    else if (event.key === 'ArrowUp') moveTo(active - 1)
    else if (event.key === 'Home') moveTo(0)
    else if (event.key === 'End') moveTo(nodes.length - 1)
    else if (event.key === 'ArrowRight' && !node.isExpanded) expand(node.path)
    else if (event.key === 'ArrowRight') moveTo(isParent(node, nodes[active + 1]) ? active + 1 : active)
    else if (event.key === 'ArrowLeft' && node.isExpanded) expand(node.path, false)
    else if (event.key === 'ArrowLeft') onPath(parentOf(node.path))
    else if (event.key === 'Enter') scroller.current?.closest('form')?.requestSubmit()
    else if (event.key.length === 1 && event.key !== ' ') moveTo(indexOfName(nodes, active, event.key))
    else return
    event.preventDefault()
  }

  return (
    <>
      <div
        ref={scroller}
        class="folder-tree"
        role="tree"
        aria-label={texts.changes.folders}
        // At first no folder is in the document.
        aria-activedescendant={items.some(({ index }) => index === active) ? `${id}-${active}` : undefined}
        tabIndex={0}
        autofocus
        onKeyDown={onKeyDown}
      >
        <div role="presentation" style={{ height: `${virtualizer.getTotalSize()}px` }}>
          {items.map(({ index, start }) => {
            const node = nodes[index]
            return (
              node && (
                <TreeRow
                  key={node.path}
                  id={`${id}-${index}`}
                  node={node}
                  start={start}
                  isSelected={index === active}
                  onSelect={() => onPath(node.path)}
                  onToggle={() => expand(node.path, !node.isExpanded)}
                />
              )
            )
          })}
        </div>
      </div>
      <NewFolder
        folder={path}
        onMade={(made) => {
          expand(path)
          onPath(made)
        }}
      />
    </>
  )
}

interface TreeRowProps {
  readonly id: string
  readonly node: FolderNode
  /** Pixels from the top of the tree. */
  readonly start: number
  readonly isSelected: boolean
  readonly onSelect: () => void
  readonly onToggle: () => void
}

function TreeRow({ id, node, start, isSelected, onSelect, onToggle }: TreeRowProps) {
  const Chevron = node.isExpanded ? ChevronDown : ChevronRight
  return (
    <div
      id={id}
      role="treeitem"
      class="virtual-item tree-row"
      aria-level={node.level}
      aria-posinset={node.position}
      aria-setsize={node.siblings}
      aria-expanded={node.isExpanded}
      aria-selected={isSelected}
      style={{ transform: `translateY(${start}px)`, paddingInlineStart: `${(node.level - 1) * indentation}px` }}
      onClick={onSelect}
      onDblClick={onToggle}
    >
      <span
        class="tree-toggle"
        onClick={(event) => {
          event.stopPropagation()
          onToggle()
        }}
      >
        <Chevron aria-hidden size={16} />
      </span>
      <Folder aria-hidden size={16} class="icon-folder" />
      <span class="name">{node.name}</span>
      {node.problem !== undefined && <span class="muted problem">{node.problem}</span>}
    </div>
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

function isParent(node: FolderNode, next: FolderNode | undefined): boolean {
  return next?.level === node.level + 1
}

/** The next folder after `from`, around the end, whose name begins with the letter; `from` if there is none. */
function indexOfName(nodes: readonly FolderNode[], from: number, letter: string): number {
  const start = letter.toLowerCase()
  for (let step = 1; step <= nodes.length; step++) {
    const index = (from + step) % nodes.length
    if (nodes[index]?.name.toLowerCase().startsWith(start) === true) return index
  }
  return from
}

/** The folder and those above it. */
function ancestorsOf(path: string): readonly string[] {
  return path === '/' ? ['/'] : [path, ...ancestorsOf(parentOf(path))]
}
