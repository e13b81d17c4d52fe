-- The runs of one repository: `corral overlap` compares their work.
CREATE INDEX runs_of_git_dir ON runs (git_dir, id);
