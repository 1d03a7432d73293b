== recheck without link: chain A - - on one slot name
